"""The command that puts the example DAGs into an installation's DAGs folder."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from ..state.errors import AlreadyExistsError, InvalidInputError
from .output import print_json
from .progress import note
from .settings import Settings, pass_settings, shared

PACKAGE = "airflow_provider_streamupdate.example_dags"


@click.command("init-dags", short_help="Put the example DAGs into a DAGs folder.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Also replace files that differ from those of this package.")
@shared
@pass_settings
def init_dags(settings: Settings, folder: Path, force: bool) -> None:
    """Copy the DAGs that the page's buttons and the guides use into FOLDER, which Airflow reads DAGs from: an update, a
    restart and a rollback by hand, releases on a schedule, and maintenance.

    Files of these names that differ are left alone, and nothing is written then; --force replaces them.

    \b
    Example:
      streamupdate init-dags ~/airflow/dags
    """
    if not folder.is_dir():
        raise InvalidInputError(f"there is no folder {folder}; give the one that Airflow reads DAGs from (dags_folder)")
    ours = {
        file.name: file.read_bytes()
        for file in resources.files(PACKAGE).iterdir()
        if file.name.endswith(".py") and file.name != "__init__.py"
    }
    there = {name: (folder / name).read_bytes() for name in ours if (folder / name).exists()}
    changed = sorted(name for name, content in there.items() if content != ours[name])
    if changed and not force:
        raise AlreadyExistsError(
            f"{', '.join(str(folder / name) for name in changed)} differ from this package's; nothing was written. "
            "Rename them, or give --force to replace them"
        )
    written = sorted(name for name, content in ours.items() if there.get(name) != content)
    for name in written:
        (folder / name).write_bytes(ours[name])
    if settings.as_json:
        print_json({"folder": str(folder), "written": written, "unchanged": sorted(ours.keys() - set(written))})
    else:
        note(settings, f"wrote {', '.join(written)} into {folder}" if written else f"{folder} has them already")
