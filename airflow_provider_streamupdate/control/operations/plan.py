"""Run a plan-only driver: it makes the plan, checks it against saved state, and starts nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from ...core import errors
from ...core.compatibility.report import CompatibilityReport
from ...core.plan.plan import AppPlan
from ...core.registry.application import Application
from ...core.registry.hiding import Hiding
from ...core.serde import from_json
from ...core.snapshots.plan_answer import PlanAnswer
from ...core.snapshots.rehearsal import Rehearsal
from ...core.storage import Folder
from ..drivers import process, runtime
from ..drivers.clusters import cluster_for
from ..drivers.driver_log import last_lines
from ..drivers.launch_files import located
from ..drivers.launcher import Launcher, driver_environment, on_this_machine
from .version import copy_application

TIMEOUT_SECONDS = 300.0
WHOLE_TRACEBACK = "streamupdate plan FILE --traceback"


@attrs.frozen(kw_only=True)
class Planned:
    """The plan of an application, its compatibility report if it was checked, and its rehearsal if it rehearsed."""

    plan: AppPlan
    report: CompatibilityReport | None
    rehearsal: Rehearsal | None = None
    checkpoints: Mapping[str, str] = attrs.field(factory=dict)  # that a script names itself, by query


def app_named_in(application: Application) -> str | None:
    """Return the name of the app that an application is of, where it is a script, or a file with the name as a literal
    in one ``StreamingApp("name")``.

    None: the name is known only after the file was planned.
    """
    if application.script is not None:
        return application.script.app
    try:
        tree = ast.parse(Path(application.file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    names: set[str | None] = set()
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or getattr(called, "id", getattr(called, "attr", None)) != "StreamingApp":
            continue
        given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "name")]
        value = given[0].value if given and isinstance(given[0], ast.Constant) else None
        names.add(value if isinstance(value, str) else None)
    return names.pop() if len(names) == 1 else None


@attrs.frozen(kw_only=True)
class PlanOptions:
    """Options of a plan-only driver: checks, a rehearsal, and a timeout."""

    root: str = ""
    storage_options: dict[str, Any] | None = None  # of the root
    against: str | None = None  # the saved state to check the plan against; None: no check
    agree: Iterable[str] = ()
    renames: Mapping[str, str] | None = None  # stages and sources of the saved state: {"old": "new"}
    adopt: Mapping[str, str] | None = None  # checkpoints to check: URIs by query; none: those that a script names
    fork: bool = False
    from_app: str | None = None
    rehearse: tuple[int, str] | None = None  # number of batches to run, and the name of the scratch folder
    timeout: float = TIMEOUT_SECONDS


def plan_application(launcher: Launcher, application: Application, options: PlanOptions = PlanOptions()) -> Planned:
    """Start a plan-only driver and wait for its answer (15-30 s).

    Raises the error that the driver found in the application; DriverError, with its last log lines, when it left no
    answer; WaitTimeoutError after `timeout` seconds. Warns (ParameterWarning) of parameters that no query function
    reads.
    """
    application.check()
    launcher.check()
    application = located(application, Path.cwd())  # the driver runs in another folder
    with tempfile.TemporaryDirectory(prefix="streamupdate-plan-") as folder:
        if application.script is not None:  # as it will run: with the files of its folder that go along, and no others
            application = located(copy_application(application, Folder.scratch(Path(folder))), Path(folder))
        out, log = Path(folder) / "plan.json", Path(folder) / "driver.log"
        args = ["plan", "--out", str(out)]
        args += _of_script(application)
        args += [f"--set={key}={value}" for key, value in application.params.items()]
        args += [f"--agree={name}" for name in options.agree]
        if options.against:
            args += ["--root", options.root, "--against", options.against]
            args += [f"--rename={old}={new}" for old, new in (options.renames or {}).items()]
            args += ["--fork"] if options.fork else []
            args += [f"--from-app={options.from_app}"] if options.from_app else []
        args += [f"--adopt={query}={uri}" for query, uri in (options.adopt or {}).items()]
        args += ["--adopt-own"] if options.adopt == {} else []
        if options.rehearse:
            args += [f"--rehearse={options.rehearse[0]}", f"--scratch={options.rehearse[1]}"]
        quiet = attrs.evolve(application, conf={**application.conf, "spark.ui.enabled": "false"})
        submitted = launcher.command(quiet, args, str(runtime.build(root=options.root or _first(options.adopt))))
        secrets = options.storage_options or {}
        cluster_for(submitted).check(submitted, driver_environment(launcher, quiet, submitted, secrets))
        command = on_this_machine(submitted)
        environment = driver_environment(launcher, quiet, command, secrets)
        with open(log, "wb") as output:
            try:
                where = application.working_folder(Path(folder))
                code = process.run(command, environment, where, output, options.timeout)
            except subprocess.TimeoutExpired as error:
                raise errors.WaitTimeoutError(
                    f"{'rehearsing' if options.rehearse else 'planning'} {application.file} took more than "
                    f"{options.timeout:g} s and was stopped; nothing was started. Try again when the machine is less "
                    "busy. Its last log lines:\n" + "\n".join(last_lines(log, application))
                ) from error
        if not out.exists():
            raise _no_answer(application, code, log)
        answer = from_json(out.read_bytes(), PlanAnswer, str(out))
    return planned(answer, Hiding.of_applications([application]))


def _of_script(application: Application) -> list[str]:
    if (script := application.script) is None:
        return []
    declared = [f"--seen-batch={query}={value}" for query, value in script.seen_batch.items()]
    declared += ["--muted"] if script.muted else []
    declared += ["--in-folder"] if script.in_folder else []
    given = f"--arguments={json.dumps(script.arguments)}"
    return [f"--script={application.file}", f"--app={script.app}", *declared, given]


def planned(answer: PlanAnswer, hiding: Hiding | None = None) -> Planned:
    """Return a driver's answer; raise the error it found in the application, and warn of unused parameters."""
    if answer.error is not None:
        kind = getattr(errors, answer.error.type, errors.ApplicationError)
        hiding, whole = hiding or Hiding(), answer.error.traceback
        hint = f" (`{WHOLE_TRACEBACK}` shows the whole traceback)" if whole else ""
        error = kind(f"{hiding.text(answer.error.message)}{hint}")
        error.traceback = hiding.text(whole) if whole else None
        raise error
    for warning in answer.warnings:
        warnings.warn(warning, errors.ParameterWarning, stacklevel=3)
    assert answer.plan is not None  # there is no error
    return Planned(plan=answer.plan, report=answer.report, rehearsal=answer.rehearsal, checkpoints=answer.checkpoints)


def _first(uris: Mapping[str, str] | None) -> str:
    return next(iter((uris or {}).values()), "")


def _no_answer(application: Application, code: int, log: Path) -> errors.StreamUpdateError:
    if code == 0:
        return errors.ApplicationError(
            f"{application.file} ran to its end without making a plan: it defines no StreamingApp, or does not call "
            'app.main() under `if __name__ == "__main__":`. Add what is missing, or name the app of a plain script '
            "(--app NAME, its arguments behind --)"
        )
    return errors.DriverError(
        f"planning {application.file} failed: its driver exited with code {code}; nothing was started. Correct what "
        "its last log lines say and try again:\n" + "\n".join(last_lines(log, application))
    )
