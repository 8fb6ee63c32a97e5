"""A Spark Declarative Pipeline: its flows go on from their state when its code has changed."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from ..control.drivers import process, runtime
from ..control.drivers.driver_log import last_lines
from ..control.drivers.launcher import Launcher, driver_environment, in_cluster
from ..control.waiting import Progress, discard_progress
from ..core import errors
from ..core.compatibility.report import CompatibilityReport, IncompatibleError
from ..core.registry.application import Application
from ..core.serde import from_json
from ..core.storage import Folder
from . import record as records
from .record import PipelineAnswer, PipelineRecord

CHECK, ADOPT, RUN = "check", "adopt", "run"
ENTRY_POINT = Path(__file__).parent / "driver" / "entry_point.py"
_FOREVER = float("inf")


@attrs.frozen
class Pipeline:
    """A pipeline, and what is agreed to about it."""

    launcher: Launcher
    application: Application  # how its driver is started; the file is the pipeline's specification
    agree: Iterable[str] = ()
    renames: Mapping[str, str] = attrs.field(factory=dict)  # of stages and sources: {"old": "new"}
    storage_options: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def spec(self) -> str:
        return self.application.file


def check_pipeline(pipeline: Pipeline) -> CompatibilityReport:
    """Return whether a pipeline's flows can go on from their checkpoints. Nothing is written or run.

    Raises the error that the driver found in the pipeline; DriverError when it left no answer.
    """
    report = _raised(_driven(pipeline, CHECK, discard_progress)).report
    assert report is not None  # there was no error
    return report


def adopt_pipeline(pipeline: Pipeline) -> PipelineAnswer:
    """Record that a pipeline's checkpoints belong to its code, which ran last.

    IncompatibleError, with the report, when they do not fit it. LeaseHeldError while the pipeline runs by this package.
    """
    answer = _raised(_driven(pipeline, ADOPT, discard_progress))
    report = answer.report
    if report is not None and not report.compatible:
        raise IncompatibleError(
            f"{report.source} were not written by the code of {pipeline.spec}; nothing was recorded:\n  "
            + "\n  ".join(report.problems),
            report,
        )
    return answer


def run_pipeline(pipeline: Pipeline, progress: Progress = discard_progress) -> PipelineAnswer:
    """Carry the state of the flows whose code has changed over to it, and run the pipeline to its end.

    IncompatibleError, with the report, when a flow cannot go on, or the error that the driver found in the pipeline:
    nothing was run. DriverError when the run failed; its message says what the state is then.
    """
    answer = _driven(pipeline, RUN, progress)
    report = answer.report
    if answer.error is None and report is not None and not report.compatible:
        raise IncompatibleError(
            f"the pipeline of {pipeline.spec} was not run, and nothing was written: its flows cannot go on from "
            f"{report.source}:\n  " + "\n  ".join(report.problems),
            report,
        )
    if answer.error is not None and answer.record is not None:
        raise errors.DriverError(f"the run of {pipeline.spec} failed: {answer.error.message}; {_left(answer)}")
    return _raised(answer)


def pipeline_record(storage: str, storage_options: dict[str, Any] | None = None) -> PipelineRecord:
    """Return what is recorded of the pipeline with this storage. NotFoundError when nothing is."""
    return records.need(Folder.open(storage, storage_options))


def _left(answer: PipelineAnswer) -> str:
    if answer.went_back:
        return (
            f"no flow used its new checkpoint, and those of before are in use again ({', '.join(answer.carried)}): run "
            "the code of before, or correct this one and run the command again"
        )
    if answer.carried:
        return (
            f"the state of {', '.join(answer.carried)} belongs to the new code now: correct it and run the command "
            "again, or run the code of before, to which the state is carried back"
        )
    return "correct it and run the command again: every flow goes on after its last batch"


def _raised(answer: PipelineAnswer) -> PipelineAnswer:
    if answer.error is not None:
        raise getattr(errors, answer.error.type, errors.ApplicationError)(answer.error.message)
    return answer


def _driven(pipeline: Pipeline, mode: str, progress: Progress) -> PipelineAnswer:
    """Run the pipeline's driver to its end and return what it reports."""
    launcher, spec = pipeline.launcher, pipeline.spec
    path = Path(spec).absolute()
    if not path.is_file():
        raise errors.InvalidInputError(f"the pipeline's spec {spec} is no file; give the path of spark-pipeline.yml")
    launcher.check()
    no_ui = {} if mode == RUN else {"spark.ui.enabled": "false"}
    conf = {**pipeline.application.conf, **no_ui}
    submitted = attrs.evolve(pipeline.application, file=str(ENTRY_POINT), conf=conf)
    with tempfile.TemporaryDirectory(prefix="streamupdate-pipeline-") as folder:
        out, lines, log = (Path(folder) / name for name in ("answer.json", "progress.txt", "driver.log"))
        lines.touch()
        args = [mode, "--spec", str(path), "--out", str(out), "--progress", str(lines)]
        args += [f"--agree={name}" for name in pipeline.agree]
        args += [f"--rename={old}={new}" for old, new in pipeline.renames.items()]
        command = launcher.command(submitted, args, str(runtime.build()))
        if in_cluster(command):
            raise errors.EnvironmentProblem(
                "a pipeline's driver runs where the command does, because Spark starts its Spark Connect server there; "
                "use deploy mode client (--conf spark.submit.deployMode=client)"
            )
        environment = driver_environment(launcher, submitted, command, pipeline.storage_options)
        code = _run(command, environment, Path.cwd(), log, lines, progress)  # paths may be relative
        if not out.exists():
            raise errors.DriverError(
                f"the driver of {spec} ended with exit code {code} and said nothing; run the command again. Its last "
                "log lines:\n" + "\n".join(last_lines(log, submitted))
            )
        return from_json(out.read_bytes(), PipelineAnswer, str(out))


def _run(
    command: list[str], environment: Mapping[str, str], folder: Path, log: Path, lines: Path, progress: Progress
) -> int:
    """Return the driver's exit code. Pass the lines that it writes to `lines` on to `progress`, its output to the log.

    The output is no substitute: the JVM may cut into a line, and Spark loses the last ones (its PythonRunner does not
    wait for the thread that copies them).
    """
    ended = threading.Event()

    def follow() -> None:
        with open(lines, "rb") as file:
            begun, over = b"", False
            while not over:
                over = ended.wait(process.POLL_SECONDS)  # before the look, so that the last look sees everything
                *whole, begun = (begun + file.read()).split(b"\n")
                for line in (*whole, begun) if over and begun else whole:
                    progress(line.decode(errors="replace"))

    follower = threading.Thread(target=follow, name="pipeline's progress", daemon=True)
    follower.start()
    try:
        with open(log, "wb") as output:
            return process.run(command, environment, folder, output, _FOREVER)
    finally:
        ended.set()
        follower.join(10.0)
