"""The runtime zip for ``--py-files``: this package's `core`, `streaming` and `pipelines`, and the pure-Python libraries
they need.

So nothing has to be installed on a cluster. The libraries lie in ``_libraries`` inside the zip and are looked up last
(streaming/__init__.py), so that versions installed on the cluster take precedence.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...core.errors import EnvironmentProblem, StorageError
from ...core.registry.output_log import private_name
from ...core.storage import Folder

PACKAGE = "airflow_provider_streamupdate"
NAME = "runtime.zip"
RUNNER = "streamupdate_script.py"
# exceptiongroup is needed below Python 3.11 only, but the driver's Python may be older than this one.
LIBRARIES = ("attr", "attrs", "cattr", "cattrs", "fsspec", "typing_extensions", "exceptiongroup")
OPTIONAL = ("exceptiongroup", "charset_normalizer")
# The libraries that fsspec needs for a root of this scheme, as far as they are pure Python.
WEB = ("requests", "urllib3", "idna", "certifi", "charset_normalizer")
BY_SCHEME = {"webhdfs": WEB, "swebhdfs": WEB}


def build(target: Path | None = None, root: str = "") -> Path:
    """Write the zip and return its path. EnvironmentProblem when a library is not installed.

    target: its path; None: a file in the temporary folder, named by its content
    root: the root that the driver must reach; the libraries needed for its scheme are included
    """
    files = sorted(_files((*LIBRARIES, *BY_SCHEME.get(root.partition("://")[0].lower(), ()))))
    if target is None:
        digest = hashlib.sha256()
        for name, path in files:
            digest.update(name.encode() + path.read_bytes())
        target = private_folder("runtime") / f"{digest.hexdigest()[:16]}.zip"
        if target.exists():
            return target
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            archive.write(path, name)
    os.replace(temporary, target)
    return target


def of_deployment(deployment: Folder, here: Path, root: str) -> Path:
    """Return the zip of a deployment in its folder on this machine, `here`; StorageError when it cannot be read.

    It is made once and kept in the root, so that a rollback runs what the deployment was made with, whichever machine
    starts it.
    """
    target = here / NAME
    if target.exists():
        return target
    content = deployment.read(NAME)
    if content is None:
        made = build(root=root).read_bytes()
        content = made if deployment.create(NAME, made) else deployment.read(NAME)
    if content is None:
        raise StorageError(f"{deployment.path(NAME)} was removed while it was looked for; try again")
    if deployment.path_here is None:
        Folder.scratch(here).write(NAME, content)
    return target


def script_runner(runtime: Path) -> Path:
    """Return the file beside a zip that spark-submit is given for a script; write it if it is not there."""
    target = runtime.with_name(RUNNER)
    if not target.exists():
        temporary = target.with_name(f".{uuid.uuid4().hex}.py")
        temporary.write_text(f"from {PACKAGE}.streaming.scripts.driver import main\n\nmain()\n")
        os.replace(temporary, target)
    return target


def _files(libraries: Iterable[str]) -> Iterator[tuple[str, Path]]:
    own = Path(__file__).parents[2]
    yield f"{PACKAGE}/__init__.py", own / "__init__.py"
    for part in ("core", "streaming", "pipelines"):
        yield from _package_files(own / part, f"{PACKAGE}/{part}")
    for library in libraries:
        spec = importlib.util.find_spec(library)
        if spec is None or spec.origin is None:
            if library in OPTIONAL:
                continue
            raise EnvironmentProblem(f"the library {library} is not installed; install {PACKAGE} with its requirements")
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            yield from _package_files(origin.parent, f"_libraries/{library}")
        else:
            yield f"_libraries/{origin.name}", origin


def _package_files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if path.suffix in (".py", ".pem") and "tests" not in relative.parts:  # certifi reads a .pem when it is loaded
            yield f"{name}/{relative.as_posix()}", path


def private_folder(name: str) -> Path:
    """Return the folder; make it if it does not exist.

    EnvironmentProblem when it belongs to another user, is a link or a file, or others may write into it.
    """
    folder = Path(tempfile.gettempdir()) / private_name(name)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(folder, "is not a folder (a link or a file)")
    if found.st_uid != os.getuid():
        raise _refused(folder, f"belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _refused(folder, "can be written by other users")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        folder.chmod(0o700)  # made by an earlier version, readable by others
    return folder


def _refused(folder: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{folder} {why}, so another user could put code there that drivers would run: remove it, or set TMPDIR to a "
        "folder of your own"
    )
