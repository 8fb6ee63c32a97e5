"""The command `init-dags`: copy the example DAGs into a DAGs folder."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

import click

from ...core.errors import AlreadyExistsError, InvalidInputError, StorageError
from ..output import print_result
from ..settings import Settings, pass_settings, shared

PACKAGE = "airflow_provider_streamupdate.example_dags"


def _folder(given: str) -> Path:
    if not given or not Path(given).is_dir():  # Path("") is the current folder
        raise InvalidInputError(
            f"there is no folder {given!r}; give the folder that Airflow reads DAGs from (dags_folder)"
        )
    return Path(given)


def _write(file: Path, content: bytes) -> None:
    """Write the file atomically: Airflow may read the folder at any time."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(file)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _copy(ours: dict[str, bytes], folder: Path, force: bool) -> list[str]:
    """Copy these files, and return the names of those that were not there. AlreadyExistsError when one differs."""
    # a dangling link is replaced
    there = {
        n: (folder / n).read_bytes() if (folder / n).exists() else b"" for n in ours if os.path.lexists(folder / n)
    }
    changed = sorted(name for name, content in there.items() if content != ours[name])
    if changed and not force:
        files, them = ", ".join(str(folder / name) for name in changed), "it" if len(changed) == 1 else "them"
        raise AlreadyExistsError(
            f"{files}: differs from the DAGs of this package; nothing was written. Move {them} out of the folder (a "
            f"renamed copy there would define the same DAGs), or give --force to replace {them}"
        )
    written = sorted(name for name, content in ours.items() if there.get(name) != content)
    for name in written:
        _write(folder / name, ours[name])
    return written


@click.command("init-dags", short_help="Copy the example DAGs into a DAGs folder.")
@click.argument("folder", callback=lambda ctx, param, value: _folder(value))
@click.option("--force", is_flag=True, help="Also replace files that differ from those of this package.")
@shared
@pass_settings
def init_dags(settings: Settings, folder: Path, force: bool) -> None:
    """Copy the example DAGs, which the page's buttons and the guides use, into FOLDER, Airflow's DAGs folder.

    They are: update, restart, run and rollback on request, releases on a schedule, and maintenance.

    If a file of the same name differs, nothing is written; --force replaces it.

    \b
    Example:
      streamupdate init-dags ~/airflow/dags
    """
    ours = {
        file.name: file.read_bytes()
        for file in resources.files(PACKAGE).iterdir()
        if file.name.endswith(".py") and file.name != "__init__.py"
    }
    try:
        written = _copy(ours, folder, force)
    except OSError as error:
        raise StorageError(
            f"the DAGs cannot be copied into {folder}: {error}; make it readable and writable, and run this again"
        ) from error
    document = {"folder": str(folder), "written": written, "unchanged": sorted(ours.keys() - set(written))}
    said = f"wrote {', '.join(written)} into {folder}" if written else f"{folder} already has these DAGs"
    print_result(settings, document, said)
