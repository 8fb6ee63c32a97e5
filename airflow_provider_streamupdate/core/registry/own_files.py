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
# What these are given is data, which Spark reads and writes where the script runs.
_OF_SPARK = {"load", "json", "csv", "text", "parquet", "orc", "xml", "start", "save", "option", "options", "table"}
_LOGS = (".log", ".pid", ".lock")


def own_files(script: Path) -> list[str]:
    """Return the paths of the files that a script needs of its own folder, within it, sorted: modules and packages that
    it or one of them imports, and files whose path, or name, is a text in one of them (a configuration, a schema). Of a
    pattern or a folder only where they ask for their own place (``__file__``): else it is data, which may grow.

    ApplicationError where they are larger than 50 MB together
    """
    folder, modules = script.parent, own_modules(script)
    nodes = [node for tree in modules.values() for node in ast.walk(tree)]
    imported = {(a.asname or a.name) for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names}
    data = {text for node in nodes for text in _data(node, imported)}
    beside = any(isinstance(node, ast.Name) and node.id == "__file__" for node in nodes)
    found = {*modules} - {script.name}
    for name, tree in modules.items():
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        texts |= {f"**/{text}" for node in ast.walk(tree) for text in _in_all_folders(node)}
        for text in texts - data:
            found.update(_file(folder, folder / name, text, beside))
    if (size := sum(_size(folder / name) for name in found)) > MOST_BYTES:
        raise ApplicationError(
            f"the files that {script} names in its folder have {size:,} bytes, and go along with each version: keep "
            "data elsewhere, and give its place as an argument"
        )
    return sorted(found)


def own_modules(script: Path) -> dict[str, ast.Module]:
    """Return the script and the modules of its folder that it or one of them imports, by their paths within it."""
    modules, todo = dict[str, ast.Module](), [script.name]
    while todo:
        name = todo.pop()
        with contextlib.suppress(SyntaxError, ValueError):  # it fails where it is imported
            modules[name] = ast.parse((script.parent / name).read_bytes())
            todo += [found for found in _imported(script.parent, name, modules[name]) if found not in {*modules, *todo}]
    return modules


def _size(file: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def _data(node: ast.AST, imported: set[str]) -> Iterator[str]:
    """Yield the texts that a call gives to Spark as a place, or opens to write. A function of its own, or of a module
    that is imported (``toml.load``), is not Spark's."""
    if not isinstance(node, ast.Call):
        return
    called = getattr(node.func, "attr", getattr(node.func, "id", ""))
    given = [
        value.value for value in (*node.args, *(k.value for k in node.keywords)) if isinstance(value, ast.Constant)
    ]
    texts = [text for text in given if isinstance(text, str)]
    if called in _OF_SPARK and isinstance(node.func, ast.Attribute):
        if getattr(node.func.value, "id", "") not in imported:
            yield from texts
    elif called == "open" and len(texts) > 1 and {*"wax+"} & {*texts[1]}:
        yield texts[0]


def _imported(folder: Path, module: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = Path(module).parent.parts
                base = ".".join((*above[: len(above) - node.level + 1], *filter(None, [base])))
            for name in (base, *(f"{base}.{alias.name}" for alias in node.names)):
                yield from _module(folder, name)


def _module(folder: Path, name: str) -> Iterator[str]:
    """Yield the files of a module, with those of the packages that it is in."""
    for below in _BELOW:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            path = below + "/".join(parts[:count])
            for each in (f"{path}/__init__.py", f"{path}.py"):
                if (folder / each).is_file():
                    yield each


def _in_all_folders(node: ast.AST) -> Iterator[str]:
    """Yield the patterns that a call of ``rglob`` is given, but one of all files."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "rglob":
        values = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
        yield from (text for text in values if isinstance(text, str) and text.strip("*"))


def _file(folder: Path, module: Path, text: str, beside: bool) -> Iterator[str]:
    """Yield the files that a text names: one, or (`beside`) those of a pattern, or all of a folder that is not
    large."""
    text = text.lstrip("/") if beside else text  # HERE + "/app.json"
    if not text or len(text) > 200 or "\n" in text or "\0" in text or text.startswith(("/", "~")) or ".." in text:
        return
    for place in dict.fromkeys((folder, module.parent)):
        with contextlib.suppress(OSError, ValueError, NotImplementedError):  # it is no name of a file
            named = place / text
            if beside and named.is_dir() and text.strip("./"):
                found = [file for file in named.rglob("*") if file.is_file()]
                found = found if sum(map(_size, found)) <= _LARGE_FOLDER_BYTES else []
            else:
                pattern = beside and text.strip("*") and {*"*?["} & {*text}  # of count("*") there is no file
                found = [*place.glob(text)] if pattern else [named]
            for file in found:
                if file.is_file() and file.suffix not in (".pyc", *_LOGS) and (file.suffix != ".py" or file != named):
                    yield file.relative_to(folder).as_posix()
