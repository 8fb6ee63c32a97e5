"""A plain PySpark script as an app: it is run as ``__main__``, and from where it waits for its queries on they are the
driver's. Not a line of it has to be changed."""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from ...core.difference.request import ExpectedDifference
from ...core.errors import ApplicationError, StreamUpdateError
from ...core.names import check_name
from ...core.registry.application import Script
from ...core.registry.own_files import own_files
from .. import spark_internals
from ..app import raised
from ..planning.author import Declarations, place
from .calls import made_by
from .names import name_queries
from .protection import protect, read_copies, refused
from .run import ScriptRun


class ScriptApp:
    """A script, as the engine and the planner know an app.

    file: the script; script: how it is run
    """

    reloadable: tuple[str, ...] = ()
    expected_differences: tuple[ExpectedDifference, ...] = ()

    def __init__(self, file: Path, script: Script) -> None:
        self.name = check_name("app", script.app)
        self.file, self.script = file.resolve(), script
        self.migrations: dict[tuple[str, str], Callable[..., Any]] = {}
        self._run: ScriptRun | None = None
        self._folder = Path.cwd()  # which a run may change

    def build(self, spark: SparkSession, params: dict[str, str]) -> dict[str, DataStreamWriter]:
        """Run the script up to where it waits for its queries, and return their writers. ApplicationError where it
        fails, or starts no query."""
        if params:
            raise ApplicationError(
                f"{self.file.name} is a script, which takes arguments (behind --) and no parameters: leave out --set "
                f"{', '.join(params)}"
            )
        spark_internals.disable_nagle(spark)
        if self._run is not None and not self._forget_first_run(spark):
            return self._writers(self._run)
        os.chdir(self._folder)
        self._send_modules(spark)
        self._run = run = ScriptRun(self.file, self.script.arguments, spark)
        protect(self.file.parent, run.starts)
        error = run.until_it_waits(made_by)
        if error is not None:
            raise self._failure(error) from error
        if not run.queries:
            raise ApplicationError(f"{self.file.name} started no streaming query: an app has at least one")
        self._check_places(run)
        name_queries(run.queries)
        names = [query.name for query in run.queries]
        if unknown := sorted(self.script.seen_batch.keys() - {*names}):
            raise ApplicationError(
                f"seen_batch names {', '.join(unknown)}, which {self.file.name} does not start (queries: "
                f"{', '.join(names)}); correct the name; of a query that is gone, take nothing over (--reset)"
            )
        return self._writers(run)

    def _writers(self, run: ScriptRun) -> dict[str, DataStreamWriter]:
        writers = {check_name("query", query.name): query.writer for query in run.queries}
        return {name: spark_internals.muted(w) for name, w in writers.items()} if self.script.muted else writers

    def _forget_first_run(self, spark: SparkSession) -> bool:
        """Take away what the run before has left in this process: its modules and temporary views. Return False where
        it waits in the import of a module, which a second run would wait for."""
        own = [n for n, m in sys.modules.items() if str(getattr(m, "__file__", "")).startswith(f"{self.file.parent}/")]
        if any(getattr(sys.modules[name].__spec__, "_initializing", False) for name in own):
            return False
        for name in own:
            del sys.modules[name]
        for view in spark.sql("SHOW VIEWS").collect():
            if view.isTemporary and not view.namespace:
                spark.catalog.dropTempView(view.viewName)
        return True

    def _check_places(self, run: ScriptRun) -> None:
        for query in run.queries:
            path = spark_internals.writer_details(query.writer)["options"].get("path", "")
            if why := refused(path):
                raise ApplicationError(f"{query.place} writes to a place that goes away: {why}")

    def _send_modules(self, spark: SparkSession) -> None:
        """Have Python workers find the modules beside the script, where the driver finds them."""
        folder = self.file.parent
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        names = own_files(self.file)
        if self.script.in_folder:
            read_copies(folder, [name for name in names if not name.endswith(".py")])
        modules = [name for name in names if name.endswith(".py")]
        if modules:
            held = io.BytesIO()
            with zipfile.ZipFile(held, "w") as archive:
                for name in modules:
                    archive.writestr(zipfile.ZipInfo(name), (folder / name).read_bytes())
            # Spark has no two files of one name: another script's, or another version's, is not this one.
            name = f"modules-{hashlib.sha256(held.getvalue()).hexdigest()[:16]}.zip"
            target = Path(tempfile.mkdtemp(prefix="streamupdate-script-")) / name
            atexit.register(shutil.rmtree, target.parent, ignore_errors=True)
            target.write_bytes(held.getvalue())
            spark.sparkContext.addPyFile(str(target))
        spark_internals.show_py_files(spark)

    def _failure(self, error: BaseException) -> StreamUpdateError:
        if isinstance(error, StreamUpdateError):
            return error
        if isinstance(error, SystemExit):
            how = f"with exit code {error.code}" if isinstance(error.code, int) else f"with {error.code!r}"
            when = "behind the start of its queries" if self._run and self._run.queries else "before it started a query"
            return ApplicationError(
                f"{self.file.name} ended {how} {when}: its output says why. Correct its arguments (behind --)"
            )
        hint = ""
        if isinstance(error, (FileNotFoundError, ImportError)) or str(self.file.parent) in str(error):
            hint = f" (it runs in {Path.cwd()}, from a copy of its folder that has the modules and files that it names)"
        return ApplicationError(
            f"{place(error) or self.file.name} raised {raised(error)}{hint}; correct it, or its arguments (behind --); "
            "`streamupdate plan` tries it without starting anything"
        )

    def unread(self, params: Iterable[str]) -> list[str]:
        """Return warnings: what the script does besides its queries, and what of its settings comes too late."""
        return list(self._run.warnings) if self._run else []

    def declarations(self) -> Declarations:
        """Return what is known of the app besides its queries. `build` was called before."""
        written = {query.name: query.place for query in self._run.queries} if self._run else {}
        seen_batch = {} if self.script.muted else self.script.seen_batch  # of its own sinks
        return Declarations(name=self.name, written=written, seen_batch=seen_batch, checkpoints=self.checkpoints())

    def checkpoints(self) -> dict[str, str]:
        """Return the script's own checkpoint locations, by query."""
        return {q.name: q.checkpoint for q in self._run.queries if q.checkpoint} if self._run else {}

    def check(self) -> None:
        """Raise ApplicationError where the script has started a query that is not one of the app's."""
        if self._run is not None:
            self._run.check()

    def begin(self) -> None:
        """The driver runs the queries."""
        if self._run is not None:
            self._run.begin()

    def finish(self, failed: bool = False) -> None:
        """The driver has ended the queries: let the script do what comes behind that, for a minute at most."""
        if self._run is not None:
            self._run.finish(failed)
