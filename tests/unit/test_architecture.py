"""docs/architecture.md is one page and names every module (spec 11.14)."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import headwater

SOURCE = Path(headwater.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"
BY_NOUN = {"api", "cli", "demo", "sources.kinds", "sources.kinds.federal", "sources.skeleton"}  # one module per noun


def named_modules() -> dict[str, set[str]]:
    """Return the modules that the tables name, by package."""
    named: dict[str, set[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| "):
            continue
        package, _, cells = line.strip("| ").partition(" | ")
        name = package.strip("`/").replace("/", ".") if package.startswith("`") else "core"
        named.setdefault(name, set()).update(re.findall(r"`([a-z_0-9*]+)`", cells))
    return named


def test_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= 120


def test_page_names_every_module() -> None:
    named = named_modules()
    missing = [
        f"{package}.{path.stem}"
        for folder in SOURCE.rglob("*")
        if (folder / "__init__.py").exists() and (package := ".".join(folder.relative_to(SOURCE).parts)) not in BY_NOUN
        for path in folder.glob("*.py")
        if path.stem != "__init__" and not is_named(path.stem, named.get(package, set()))
    ]
    assert missing == []


def test_page_names_no_module_that_is_gone() -> None:
    gone = [
        f"{package}.{name}"
        for package, names in named_modules().items()
        if (folder := SOURCE / package.replace(".", "/")).is_dir() and package not in BY_NOUN
        for name in names
        if "*" not in name and not (folder / f"{name}.py").exists()
    ]
    assert gone == []


def is_named(module: str, names: set[str]) -> bool:
    return any(module == name or (name.endswith("*") and module.startswith(name[:-1])) for name in names)


def test_a_class_name_has_one_meaning() -> None:
    """Issue 19: no two public classes of the tree share a name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
