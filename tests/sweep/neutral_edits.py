"""Edits of a module that change nothing that it computes, made by `ast` in modules that others wrote: of packages that
are installed beside Spark. They are copied into an app's folder under other names, as a vendored package is.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

# Below Spark's site-packages.
_PACKAGES = [
    *("dateutil", "fsspec", "packaging", "pluggy", "py4j", "pygments", "pytz", "yaml"),
    *(
        f"setuptools/_vendor/{name}"
        for name in ("autocommand", "more_itertools", "platformdirs", "tomli", "wheel", "zipp")
    ),
]
Files = dict[str, str]


@attrs.frozen
class Module:
    """A module in an app's folder. around: the folder that its package is in; file: within that"""

    name: str
    source: str
    around: str
    file: str

    @property
    def path(self) -> str:
        """The name by which the app imports it."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def functions(self) -> list[str]:
        """Return the function that an app calls: the longest one that has no underscore."""
        found = [n for n in ast.parse(self.source).body if isinstance(n, ast.FunctionDef) and n.name[0] != "_"]
        return [n.name for n in sorted(found, key=lambda n: (-len(ast.unparse(n)), n.name))[:1]]

    def write(self, folder: Path, function: str, files: Files) -> Path:
        """Write an app that calls one of its functions; files: instead of the module's own"""
        shutil.copytree(self.around, folder, copy_function=os.link, dirs_exist_ok=True)
        app = f"from {self.path} import {function}\ndef f(x):\n    return {function}(x)\n"
        for name, text in {self.file: self.source, **files, "app.py": app}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # a link to the package's own
            path.write_text(text)
        return folder


def modules(folder: Path) -> list[Module]:
    """Return the modules of packages, which are copied into the folder."""
    site = Path(sysconfig.get_paths()["purelib"])
    found = []
    for path in (path for path in _PACKAGES if (site / path).is_dir()):
        package = path.rpartition("/")[2]
        around = folder / package
        mentioned = re.compile(rf"^(\s*(?:from|import) ){package}\b", re.MULTILINE)
        for file in sorted((site / path).rglob("*.py")):
            text = mentioned.sub(rf"\1own_{package}", file.read_text(errors="replace"))
            place = f"own_{package}/{file.relative_to(site / path).as_posix()}"
            (around / place).parent.mkdir(parents=True, exist_ok=True)
            (around / place).write_text(text)
            found.append(Module(place, text, str(around), place))
    return [module for module in found if module.functions()]


def _own(source: str, change: Callable[[ast.Module], object]) -> str | None:
    """The module's text after a change of its tree; None where there is nothing to change."""
    tree = ast.parse(source)
    before = ast.dump(tree)
    change(tree)
    return None if ast.dump(tree) == before else ast.unparse(ast.fix_missing_locations(tree))


def _without_docstrings(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]


def _without_hints(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for each in ast.walk(node.args):
                if isinstance(each, ast.arg):
                    each.annotation = None


def _with_hints(tree: ast.Module) -> None:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.returns is None:
            node.returns = ast.Constant("object")


def _reversed_runs(tree: ast.Module, is_one: Callable[[ast.stmt], bool]) -> None:
    run: list[int] = []
    for place, node in enumerate([*tree.body, None]):
        if node is not None and is_one(node):
            run.append(place)
            continue
        for one, other in zip(run, [tree.body[k] for k in reversed(run)], strict=True):
            tree.body[one] = other
        run = []


def _is_plain_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and not node.decorator_list and not node.args.defaults


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")


class _Names(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.new, node.ctx) if node.id == self.old else node


def _rename_local(tree: ast.Module) -> None:
    """Rename a variable of each function that has no functions in it."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Import)
    inner += (ast.ImportFrom, ast.ExceptHandler, ast.comprehension, ast.Delete)
    for place, node in enumerate(tree.body):
        if not isinstance(node, ast.FunctionDef) or any(
            isinstance(n, inner) for part in node.body for n in ast.walk(part)
        ):
            continue
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        given = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        made = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - given
        if made and not {"locals", "vars", "dir", "eval", "exec"} & names:
            tree.body[place] = _Names(min(made), f"{min(made)}_renamed").visit(node)


def _moved_out(source: str) -> Files | None:
    """Put a function that needs nothing of its module into a module of its own."""
    tree = ast.parse(source)
    for place, node in enumerate(tree.body):
        if not isinstance(node, ast.FunctionDef) or not _is_plain_function(node):
            continue
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        own = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        own |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)} | {node.name}
        own |= {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}
        if names - own - {*dir(builtins)} or any(isinstance(n, ast.Global) for n in ast.walk(node)):
            continue
        moved = ast.unparse(node)
        tree.body[place] = ast.ImportFrom("moved", [ast.alias(node.name)], 0)
        return {"": ast.unparse(ast.fix_missing_locations(tree)), "moved.py": moved + "\n"}
    return None


EDITS: dict[str, Callable[[str], str | None]] = {
    "layout and comments": lambda s: ast.unparse(ast.parse(s)),
    "docstrings gone": lambda s: _own(s, _without_docstrings),
    "hints gone": lambda s: _own(s, _without_hints),
    "hints more": lambda s: _own(s, _with_hints),
    "a function that nobody calls": lambda s: s + "\n\ndef _nobody_calls_it(x):\n    return x + 1\n",
    "a class that nobody uses": lambda s: s + "\n\nclass _NobodyUsesIt:\n    limit = 3\n",
    "a logger": lambda s: s + "\n\nimport logging\n_log = logging.getLogger('own')\n",
    "a main block": lambda s: s + "\n\nif __name__ == '__main__':\n    print('main')\n",
    "functions in another order": lambda s: _own(s, lambda t: _reversed_runs(t, _is_plain_function)),
    "imports in another order": lambda s: _own(s, lambda t: _reversed_runs(t, _is_import)),
    "a local variable renamed": lambda s: _own(s, _rename_local),
}


ORDERS = ("functions in another order", "imports in another order")  # which need not load


def edits(module: Module) -> Iterator[tuple[str, Files]]:
    """Yield each edit with the app's files that it changes."""
    for name, edit in EDITS.items():
        if (changed := edit(module.source)) is not None:
            yield name, {module.file: changed}
    if moved := _moved_out(module.source):
        yield "a helper moved to another module", {module.file: moved.pop(""), **moved}
