"""Times one reader over a folder of PDFs: read_pdfs.py READER FOLDER.

Prints JSON: for each file, by its place below the folder, CPU seconds, pages, status and the most memory so far in MB.
"""

import contextlib
import io
import json
import logging
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

Read = Callable[[bytes], tuple[int, str]]  # returns the number of pages and the status


def ours() -> Read:
    from headwater.extraction.pdf.pdf_v1 import extract_pdf

    def read(body: bytes) -> tuple[int, str]:
        document = extract_pdf(body)
        return document.page_count, str(document.status)

    return read


def pdfplumber() -> Read:
    import pdfplumber

    logging.disable(logging.ERROR)

    def read(body: bytes) -> tuple[int, str]:
        pages = 0
        with contextlib.suppress(Exception), pdfplumber.open(io.BytesIO(body)) as document:
            for page in document.pages:
                page.extract_text()
                page.extract_tables()
                page.close()
                pages += 1
        return pages, "read"

    return read


READERS = {"ours": ours, "pdfplumber": pdfplumber}


def main(reader: str, folder: str) -> dict[str, tuple[float, int, str, float]]:
    """Read each file once."""
    read = READERS[reader]()
    answers = {}
    for path in sorted(Path(folder).rglob("*.pdf")):
        body = path.read_bytes()
        started = time.process_time()
        pages, status = read(body)
        seconds = time.process_time() - started
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers[str(path.relative_to(folder))] = (seconds, pages, status, most)
    return answers


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
