"""Find sentences that are hard to read: python -m tools.check_prose [PATH...].

The check reads comments, docstrings, SQL comments, Markdown and test names. A sentence must open with its subject and
must not use a word that has a plainer one. Each exception below is a sentence in which such a word is right.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

OPENINGS = (
    "What Who Whoever Whose Whatever Whichever Those Nobody Nothing As Where Such So+much Of+what To+whom That+which"
    " It+is+the It+is+a It+is+what Not"
)
WORDS = (
    "tell tells told mend mends mended mending whoever nobody amid for+ever hardly beside lest as+it+must of+sorts"
    " is+so come+out comes+out goes+on gone+wrong know+of knows+of look+whether looks+whether held+against"
    " come+to+nothing given+up+on stand+in stands+in"
)
EXCEPTIONS = ("Nothing in this Act changes",)  # the text of a sample PDF

_CODE = re.compile(r"```.*?```|`[^`]*`", re.S)
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n")


def _alternatives(words: str) -> str:
    return "|".join(word.replace("+", r"\s") for word in words.split())


_OPENING = re.compile(rf"(?:{_alternatives(OPENINGS)})\b", re.I)
_WORD = re.compile(rf"\b(?:{_alternatives(WORDS)})\b", re.I)


def read_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment, docstring and test name."""
    comment, first, last = "", 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield first, comment
                comment = ""
            first = first if comment else token.start[0]
            comment = f"{comment} {token.string.lstrip('#').strip()}".strip()
            last = token.start[0]
    if comment:
        yield first, comment
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = node.body[0].lineno if node.body else 1
            if docstring := ast.get_docstring(node):
                yield line, docstring
            name = "" if isinstance(node, ast.Module) else node.name
            if name.startswith("test_"):
                yield line, name.removeprefix("test_").replace("_", " ").capitalize()


def read_lines(text: str, marker: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that begin with a marker of a comment; with no marker, yield each line."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip().startswith(marker):
            yield number, line.strip().lstrip("-#*|> ")


def find_faults(path: Path) -> Iterator[str]:
    """Yield a line for each sentence of a file that is hard to read."""
    text = path.read_text(encoding="utf-8")
    pieces = read_python(text) if path.suffix == ".py" else read_lines(text, "--" if path.suffix == ".sql" else "")
    for line, piece in pieces:
        for sentence in _SENTENCE_END.split(_CODE.sub("`code`", piece)):
            plain = " ".join(sentence.split())
            if any(exception in plain for exception in EXCEPTIONS):
                continue
            if _OPENING.match(plain) and not plain.endswith("?"):
                yield f"{path}:{line}: opens without a subject: {plain[:120]}"
            elif found := _WORD.search(plain):
                yield f"{path}:{line}: avoid {found[0]!r}: {plain[:120]}"


def main(arguments: list[str]) -> int:
    """Print the hard sentences of the given paths, or of the whole tree. Returns 1 if there are any."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    names = [name for name in listed.stdout.split("\0") if name.endswith((".py", ".sql", ".md"))]
    paths = [Path(name) for name in names if "golden/" not in name]
    faults = [fault for path in paths if path.exists() for fault in find_faults(path)]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(faults)} hard sentences in {len(paths)} files")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
