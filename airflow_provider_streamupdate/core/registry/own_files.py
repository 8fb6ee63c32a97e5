"""The files beside a script that it needs: modules that it imports, and files that it names."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..errors import ApplicationError

_LARGE_FOLDER_BYTES = 1_000_000  # data, and no configuration; a text is often no name at all
MOST_BYTES = 50_000_000
_BELOW = ("", "src/", "lib/")  # folders in which a script's modules are


def own_files(script: Path) -> list[str]:
    """Return the paths of the files that a script needs of its own folder, within it, sorted: modules and packages that
    it or one of them imports, and files whose path, or name, is a text in one of them (a configuration, a schema).

    ApplicationError where they are larger than 50 MB together
    """
    folder, found = script.parent, set[str]()
    todo = [script]
    while todo:
        module = todo.pop()
        for name in _named(folder, module) if module.suffix == ".py" else ():
            if name not in found and (folder / name).resolve() != script.resolve():
                found.add(name)
                todo.append(folder / name)
    if (size := sum((folder / name).stat().st_size for name in found)) > MOST_BYTES:
        raise ApplicationError(
            f"the files that {script} names in its folder have {size:,} bytes, and go along with each version: keep "
            "data elsewhere, and give its place as an argument"
        )
    return sorted(found)


def _named(folder: Path, module: Path) -> Iterator[str]:
    try:
        tree = ast.parse(module.read_bytes())
    except (SyntaxError, ValueError):
        return  # it fails where it is imported
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.parent.relative_to(folder).parts
                base = ".".join((*above[: len(above) - node.level + 1], *filter(None, [base])))
            for name in (base, *(f"{base}.{alias.name}" for alias in node.names)):
                yield from _module(folder, name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _file(folder, module, node.value)


def _module(folder: Path, name: str) -> Iterator[str]:
    """Yield the files of a module, with those of the packages that it is in."""
    for below in _BELOW:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            path = below + "/".join(parts[:count])
            for each in (f"{path}/__init__.py", f"{path}.py"):
                if (folder / each).is_file():
                    yield each


def _file(folder: Path, module: Path, text: str) -> Iterator[str]:
    """Yield the files that a text names: one, those of a pattern, or all of a folder that is not large."""
    if not text or len(text) > 200 or "\n" in text or "\0" in text or text.startswith(("/", "~")) or ".." in text:
        return
    for place in dict.fromkeys((folder, module.parent)):
        with contextlib.suppress(OSError, ValueError, NotImplementedError):  # it is no name of a file
            named = place / text
            if named.is_dir() and text.strip("./"):
                found = [file for file in named.rglob("*") if file.is_file()]
                found = found if sum(file.stat().st_size for file in found) <= _LARGE_FOLDER_BYTES else []
            else:
                found = [file for file in place.glob(text) if file.is_file()] if "*" in text else [named]
            for file in found:
                if file.is_file() and file.suffix not in (".pyc", ".py"):
                    yield file.relative_to(folder).as_posix()
