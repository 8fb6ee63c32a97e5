"""The owner of a module: the app (it is walked), Python itself, an installed package (known by its version), or Spark
and this package."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib.machinery
import os
import re
import site
import sys
import sysconfig
import types
from importlib import metadata

# Which Spark and which provider run is compared elsewhere: they count by name.
_PLATFORM = frozenset({"pyspark", "py4j", "airflow_provider_streamupdate"})
MAIN = frozenset({"__main__", "__mp_main__"})
_PLACES = ("__file__", "__path__")
_RUNTIME_LIBRARIES = f"{os.sep}_libraries{os.sep}"  # inside the runtime zip (control/drivers/runtime.py)


class Owner(enum.Enum):
    APP = "the app"
    PYTHON = "Python"
    PACKAGE = "an installed package"
    PLATFORM = "Spark, or this provider with its libraries"


def owner(module: str | None) -> Owner:
    """Whose a module is, by its name. What lies in the interpreter's site-packages is installed; what lies anywhere
    else is the app's: its own files, zips of --py-files, editable installs, what has no distribution, what has no file.
    A part of the app's inside a package that is installed (acme.orders of a namespace acme) is the app's, too.
    """
    whose = _owner_of_top(module)
    if whose in (Owner.PACKAGE, Owner.PYTHON) and module and "." in module and (path := _own_path(module)):
        known = (*_site_folders(), *_python_folders())
        return whose if _RUNTIME_LIBRARIES in path or _below(path, known) else Owner.APP
    return whose


def _owner_of_top(module: str | None) -> Owner:
    top = (module or "__main__").partition(".")[0]
    if top in MAIN:
        return Owner.APP
    if top in _PLATFORM:
        return Owner.PLATFORM
    path = _path(top)
    if path is None:
        return Owner.PYTHON if top in sys.stdlib_module_names or top in sys.builtin_module_names else Owner.APP
    if _RUNTIME_LIBRARIES in path:
        return Owner.PLATFORM
    if _below(path, _site_folders()):
        return Owner.PACKAGE if package(top) else Owner.APP
    return Owner.PYTHON if _below(path, _python_folders()) else Owner.APP


def below_app(text: str) -> str | None:
    """A text that names places in the app's folder, with marks for the folder; None for any other text. Each deployment
    has a folder of its own, so that where it lies says nothing (``Path(__file__).parent``)."""
    marked = text
    for folder, mark in _app_folders(len(sys.modules)) if os.sep in text else ():
        if folder in marked:  # what only begins like it is left
            marked = re.sub(rf"{re.escape(folder)}(?![\w.-])", f"\0{mark}", marked)
    return None if marked == text else marked


@functools.lru_cache(maxsize=1)
def _app_folders(_modules: int) -> list[tuple[str, str]]:
    """The folders that the app's modules are imported from, and the one above (``Path(__file__).parent.parent``), the
    longest first, with what tells them apart. _modules: how many there are, since more may be loaded."""
    found: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and owner(name) is Owner.APP:
            depth = 1 + (0 if name == "__main__" else name.count(".") + (os.path.basename(file) == "__init__.py"))
            for place in (os.path.abspath(file), os.path.realpath(file)):
                folder = os.sep.join(place.split(os.sep)[:-depth])
                found.setdefault(folder, set()).add(name.partition(".")[0])
    main = {folder for folder, names in found.items() if "__main__" in names}
    marks = {os.path.dirname(folder): "/.." for folder in main}
    marks |= {folder: "" if folder in main or len(found) == 1 else min(names) for folder, names in found.items()}
    return sorted(((f, mark) for f, mark in marks.items() if f.count(os.sep) > 1), key=lambda p: (-len(p[0]), p))


def is_importable(module: str) -> bool:
    """Whether a module can be imported here, by its topmost name. Imports nothing."""
    top = module.partition(".")[0]
    return top in sys.modules or top in sys.builtin_module_names or spec_of(top) is not None


def package(module: str) -> str:
    """The distributions a module may come from, with their versions ("numpy 2.2.0"); empty when there is none."""
    return ", ".join(_versions().get(module.partition(".")[0], ()))


def _path(top: str) -> str | None:
    loaded = sys.modules.get(top)
    if loaded is not None:
        # not by getattr: a module's own __getattr__ may answer to any name
        held = vars(loaded) if isinstance(loaded, types.ModuleType) else {n: getattr(loaded, n, None) for n in _PLACES}
        places = [held.get("__file__"), *list(held.get("__path__") or ())[:1]]
    else:
        spec = spec_of(top)
        places = [spec.has_location and spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    return next((str(place) for place in places if place), None)


def _own_path(module: str) -> str | None:
    """The place of a module below another; None where it is not known, or where all of its package is in one place."""
    held = sys.modules.get(module)
    if held is not None:
        file = getattr(held, "__dict__", {}).get("__file__")
        return file if isinstance(file, str) else None
    around = module.rpartition(".")[0]
    path = getattr(sys.modules.get(around), "__dict__", {}).get("__path__")
    if path is None:  # not imported yet: where the app's folders hold a part of it
        path = [os.path.join(place, *around.split(".")) for place in sys.path if place]
    known = (*_site_folders(), *_python_folders())
    path = [place for place in path if not _below(os.path.join(place, ""), known)]
    spec = importlib.machinery.PathFinder.find_spec(module, path) if path else None
    return spec.origin if spec is not None and spec.has_location else None


def spec_of(module: str) -> importlib.machinery.ModuleSpec | None:
    """Find a module, whatever has been imported under its name, without an import of the packages around it."""
    around = spec_of(module.rpartition(".")[0]) if "." in module else None
    path = around.submodule_search_locations if around is not None else None
    for finder in (importlib.machinery.PathFinder, *sys.meta_path) if path or "." not in module else ():
        with contextlib.suppress(ImportError, ValueError, AttributeError):
            if (spec := finder.find_spec(module, path)) is not None:  # type: ignore[attr-defined]
                return spec
    return None


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return path.startswith(folders) or os.path.realpath(path).startswith(folders)


@functools.cache
def _site_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_paths()[k] for k in ("purelib", "platlib")}
    return _both({*folders, *site.getsitepackages(), site.getusersitepackages()})


@functools.cache
def _python_folders() -> tuple[str, ...]:
    return _both({sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib")})


def _both(folders: set[str]) -> tuple[str, ...]:
    return tuple(sorted({os.path.join(f, "") for folder in folders for f in (folder, os.path.realpath(folder))}))


@functools.cache
def _versions() -> dict[str, tuple[str, ...]]:
    """Topmost module -> "name version" of its distributions (importlib.metadata.packages_distributions, which in
    Python 3.10 knows only those that list their modules in top_level.txt)."""
    found: dict[str, set[str]] = {}
    for distribution in metadata.distributions():
        listed = (distribution.read_text("top_level.txt") or "").split()
        for top in listed or {_top(str(file)) for file in distribution.files or ()}:
            found.setdefault(top, set()).add(f"{distribution.metadata['Name']} {distribution.version}")
    return {top: tuple(sorted(names)) for top, names in found.items()}


def _top(file: str) -> str:
    first = file.partition("/")[0]
    return first.partition(".")[0] if "/" not in file else first
