"""Runs sample apps, each in a process of its own forked from this one: digest, what is unknown, results.

python python_runner.py < jobs > outcomes     each line a JSON object; job: {folder, inputs, results, site, again}
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from airflow_provider_streamupdate.streaming import code
from airflow_provider_streamupdate.streaming.code import owner

SECONDS = 4.0  # of computing for one app, on a busy machine too: a mutant may loop for ever


def outcome(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["folder"])
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    if "site" in job:  # a folder with packages installed in it
        sys.path.append(job["site"])
        owner._site_folders = lambda: (job["site"],)
        owner._versions.cache_clear()
    main = types.ModuleType("__main__")
    main.__file__ = str(folder / "app.py")
    sys.modules["__main__"] = main
    try:
        exec(compile((folder / "app.py").read_text(), main.__file__, "exec"), vars(main))
        f = vars(main)["f"]
        command = cloudpickle.dumps((f, None))
    except Exception as e:
        return {"fails": f"{type(e).__name__}: {e}"}
    found = code.describe(command)
    made: dict[str, Any] = {"digest": found.with_imports, "unknown": found.unknown, "packages": found.packages}
    made["alone"] = found.digest  # without what importing does, which is asked about once (python.imports)
    if job.get("again"):
        made["again"] = code.describe(command).with_imports
    if job.get("results", True):
        # As a worker has it, which knows no class of the app's own file yet.
        cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
        f, _ = cloudpickle.loads(command)
        made["results"] = [_result(f, arguments) for arguments in job["inputs"]]
    return made


def _result(f: Any, arguments: str) -> str:
    try:
        return repr(f(*eval(f"({arguments},)")))
    except Exception as e:
        return f"{type(e).__name__}: {e}"


def _in_child(job: dict[str, Any]) -> dict[str, Any]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(60)  # or wait for ever
        with os.fdopen(writer, "w") as file:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            said = outcome(job)
            file.write(json.dumps(said, separators=(",", ":")))  # an app may have set others
            file.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        told = file.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else {"fails": "no answer"}


def main() -> None:
    import numpy  # what takes long is loaded once, before the fork
    import pandas  # noqa: F401

    code.describe(cloudpickle.dumps((lambda: numpy.abs(1), None)))
    sys.dont_write_bytecode = True  # mutants share names, and their times may be equal
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_in_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
