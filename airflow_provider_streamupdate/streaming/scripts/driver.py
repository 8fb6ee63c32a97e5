"""The entry point of a driver that runs a script."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from ...core.registry.application import Script
from ...core.registry.registry import Registry
from ...core.storage import Folder
from ...core.storage import options as storage_options
from .. import check_pyspark


def main() -> None:
    """Run or plan a script, as its arguments say. Exits with 0, 1 on failure."""
    check_pyspark()
    sys.dont_write_bytecode = True  # a script's modules lie in the root
    from ..agent import driver
    from ..agent.arguments import parser_of
    from ..parameters import parse_settings
    from .app import ScriptApp

    options = parser_of("A script").parse_args()
    if options.mode == "plan":
        script = Script(
            app=options.app,
            arguments=tuple(json.loads(options.arguments)),
            seen_batch=parse_settings(options.seen_batch),
            muted=options.muted,
            in_folder=options.in_folder,
        )
        sys.exit(driver.plan(ScriptApp(Path(options.script), script), options))
    sys.exit(driver.run(ScriptApp(*_stored(options)), options))


def _stored(options: argparse.Namespace) -> tuple[Path, Script]:
    """Return a deployment's script on this machine, with the files beside it, and how it is run."""
    app = Registry(options.root, storage_options.from_environment()).existing(options.app)
    application, folder = app.spec(options.deployment).application, app.deployment_folder(options.deployment)
    here = folder.path_here
    if here is None:
        here = Path(tempfile.mkdtemp(prefix="streamupdate-script-"))
        for name in folder.files("application"):
            Folder.scratch(here).copy_from(folder, f"application/{name}", f"application/{name}")
    assert application.script is not None  # else another file would have been run
    return here / application.file, application.script
