"""`headwater source new-kind NAME`: a class, a golden pair and its test, ready to run."""

import keyword
import re
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template

from headwater.core.errors import BadRequest, FolderUnusable
from headwater.sources import registry

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


def write_skeleton(name: str, folder: Path) -> list[Path]:
    """Write the files of a new kind into a folder. Raises OperatorError, and writes nothing, if one of them exists."""
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{name!r} cannot name a kind: use up to 41 of a-z, 0-9 and underscore, and begin with a letter."
        )
    pair = folder / "golden" / name
    files = {
        folder / f"{name}.py": "kind.py.txt",
        folder / f"test_{name}.py": "test.py.txt",
        pair / "run.json": "run.json",
        pair / "records.json": "records.json",
        pair / "expected.json": "expected.json",
    }
    if existing := next((path for path in files if path.exists()), None):
        raise FolderUnusable(f"{existing} exists already; nothing was written.")
    if owner := _find_owner(name):
        raise BadRequest(
            f"{name!r} cannot name a kind: it is {owner}. Choose another name, such as '{name}_list'. "
            "Nothing was written."
        )
    skeleton = resources.files("headwater.sources.skeleton")
    values = {"name": name, "class_name": _class_name(name)}
    try:
        pair.mkdir(parents=True)
        for path, template in files.items():
            text = (skeleton / template).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(values) if template.endswith(".txt") else text, encoding="utf-8")
    except OSError as error:
        raise FolderUnusable(f"{folder} cannot be written to: {error.strerror}.") from None
    return list(files)


def _find_owner(name: str) -> str | None:
    """Return what has a name already. A module of that name could not be imported, or would hide another."""
    if keyword.iskeyword(name):
        return "a word of the language Python"
    if name in registry.get_kinds() or name in registry.get_broken_kinds():
        return "a kind that is installed already"
    if name in sys.stdlib_module_names:
        return "a module of Python's own"
    found = find_spec(name)
    return "a module that is installed already" if found and found.origin else None  # a folder has no origin


def format_entry_point(name: str) -> str:
    """Return the lines of a pyproject.toml that install a kind."""
    return f'[project.entry-points."headwater.kinds"]\n{name} = "{name}:{_class_name(name)}"'


def _class_name(name: str) -> str:
    return f"{name.title().replace('_', '')}Kind"
