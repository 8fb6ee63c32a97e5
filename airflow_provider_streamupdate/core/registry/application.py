"""An application as a user submits it: its file and everything that decides how it runs."""

from __future__ import annotations

import ast
import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

from ..errors import ApplicationError
from ..names import check_name, path_problem
from .driver_settings import DriverSettings
from .own_files import own_files, own_modules
from .script_checks import check_no_script, check_script


@attrs.frozen(kw_only=True)
class Script:
    """A plain PySpark script as an app.

    app: the app's name
    arguments: the script's ``sys.argv[1:]``
    seen_batch: by query, what its sink does with a batch id that it has had (`StreamingApp.query`)
    muted: its queries write into nothing
    folder: the working directory of its drivers, where relative paths lie (empty: a deployment's own)
    in_folder: it, or its first version, lay in that folder, so that relative names of its own files mean these
    """

    app: str
    arguments: tuple[str, ...] = ()
    seen_batch: dict[str, str] = attrs.field(factory=dict)
    muted: bool = False
    folder: str = ""
    in_folder: bool = False

    @property
    def options(self) -> dict[str, str]:
        """The values of arguments by the names before them: ``--topic x``, ``--topic=x``."""
        pairs = [word.partition("=")[::2] for word in self.arguments if word.startswith("-") and "=" in word]
        pairs += [(n, v) for n, v in pairwise(self.arguments) if n.startswith("-") and "=" not in n and v[:1] != "-"]
        return {name.lstrip("-"): value for name, value in pairs}


@attrs.frozen(kw_only=True)
class Application:
    """An application as it is submitted."""

    file: str  # path of the Python file that defines the `StreamingApp`, or of the script
    script: Script | None = None  # None: the file defines a `StreamingApp`
    # more Python files, zips or wheels for the driver and the executors (spark-submit --py-files)
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # data files placed in the working directory of the executors (spark-submit --files)
    # what the query functions get as ``params`` (``--set key=value``)
    params: dict[str, str] = attrs.field(factory=dict)
    conf: dict[str, str] = attrs.field(factory=dict)  # Spark configuration (``--conf key=value``)
    # Spark master, e.g. ``local[2]``; None leaves it to the launcher (connection, spark-defaults)
    master: str | None = None
    env_vars: dict[str, str] = attrs.field(factory=dict)  # environment of the driver

    def working_folder(self, own: Path) -> Path:
        """Return the folder that a driver runs in: a script's, which is made again where it is gone, else, also where
        this machine cannot have it, the driver's own."""
        given = Path(self.script.folder) if self.script and self.script.folder else own
        try:
            given.mkdir(parents=True, exist_ok=True)
        except OSError:
            return own
        return given

    @property
    def inputs(self) -> dict[str, str]:
        """The parameters, and a script's arguments by their number."""
        return {**self.params, **{str(n): text for n, text in enumerate(self.script.arguments if self.script else ())}}

    @property
    def settings(self) -> tuple[dict[str, str], ...]:
        """All that it is given by name, which may be secret."""
        return self.params, self.conf, self.env_vars, self.script.options if self.script else {}

    def check(self) -> None:
        """Cheap checks before anything is started: the files exist, and the application file parses and is no
        pipeline's."""
        if not self.file:
            raise ApplicationError("no application file is given: give the path of the .py file that defines the app")
        path = Path(self.file)
        if problem := _no_file(path):
            raise ApplicationError(
                f"application file {self.file} {problem}; give the path of the .py file that defines the app"
                + (f" (it holds {', '.join(held)})" if (held := sorted(p.name for p in path.glob("*.py"))[:5]) else "")
            )
        try:
            tree = ast.parse(path.read_bytes(), filename=self.file)
        except (SyntaxError, ValueError) as error:
            raise ApplicationError(
                f"application file {self.file} does not parse as Python: {error}; fix it and try again"
            ) from error
        if _defines_pipeline(tree):
            raise ApplicationError(
                f"application file {self.file} is of a Spark Declarative Pipeline (it imports pyspark.pipelines): its "
                "flows are started by Spark itself, and cannot be updated here. Run it with spark-pipelines, or write "
                "the flow as a query of a StreamingApp and adopt its checkpoint (docs/adopting.md)"
            )
        for extra in (*self.py_files, *self.files):
            if problem := _no_file(Path(extra)):
                raise ApplicationError(
                    f"file {extra} of application {self.file} {problem}; give a file (of a package: a zip)"
                )
        if self.script is None:
            check_no_script(own_modules(path))
        else:
            check_name("app", self.script.app)
            check_script(path.name, tree)
            own_files(path)
            from ..plan.plan import SEEN_BATCH  # takes as long to import as the command line itself

            for query, declared in self.script.seen_batch.items():
                if declared not in SEEN_BATCH:
                    raise ApplicationError(
                        f"seen_batch of query {query} is {declared!r}; it must be one of {', '.join(SEEN_BATCH)}"
                    )
        for stored in (self.file, *self.py_files, *self.files):
            if problem := path_problem(f"application/{Path(stored).name}"):
                raise ApplicationError(f"file {stored!r} of the application {problem}: rename it")
        for kind, keys in (("parameter", self.params), ("conf", self.conf)):
            for key, value in keys.items():
                if not key or not isinstance(value, str):
                    raise ApplicationError(f"{kind} {key!r}={value!r} of {self.file} must have a name and a text value")
        DriverSettings.of(self.env_vars)  # InvalidInputError

    def digest(self) -> str:
        """SHA-256 over code, files, conf and parameters (not the files' locations): equal digests run alike."""
        return hashlib.sha256(json.dumps(self.content(), sort_keys=True).encode()).hexdigest()

    def files_beside(self) -> list[str]:
        """Return the files that a script needs of its folder, within it."""
        return own_files(Path(self.file)) if self.script is not None else []

    def content(self) -> dict[str, Any]:
        """Return what the digest is made of, by part."""
        folder, script = Path(self.file).parent, self.script
        own = [[name, _file_digest(str(folder / name))] for name in self.files_beside()]
        return {
            **({"arguments": [*script.arguments, script.seen_batch], "own_files": own} if script else {}),
            "code": _file_digest(self.file),
            "py_files": [[Path(f).name, _file_digest(f)] for f in self.py_files],
            "files": [[Path(f).name, _file_digest(f)] for f in self.files],
            "params": self.params,
            "conf": self.conf,
            "env_vars": self.env_vars,
            "master": self.master,
        }


def default_deployment_id(app: str, digest: str, existing: set[str]) -> str:
    """`<digest8>`, or `<digest8>-2`, `-3` ... when that was used before."""
    check_name("app", app)
    base, number = digest[:8], 1
    while (name := base if number == 1 else f"{base}-{number}") in existing:
        number += 1
    return name


def _no_file(path: Path) -> str | None:
    """Return why a path is no file, in words; None when it is one."""
    if path.is_dir():
        return "is a folder"
    return None if path.is_file() else "is no file" if path.exists() else "does not exist"


def _defines_pipeline(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(name.name == "pyspark.pipelines" for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = {f"{node.module}.{name.name}" for name in node.names}
            if node.module == "pyspark.pipelines" or "pyspark.pipelines" in names:
                return True
    return False


def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
