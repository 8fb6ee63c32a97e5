"""An example option, as somebody would add one: a field of `UpdateOptions`. In a process of its own, since every edge
reads the class when it is imported; it prints what they make of it."""

from __future__ import annotations

import json
import sys

import attrs

from airflow_provider_streamupdate.control.update import options
from airflow_provider_streamupdate.control.update.option import STEPS, Kind, option


@attrs.frozen(kw_only=True)
class Extended(options.UpdateOptions):
    quiet_for: float | None = option(
        Kind.SECONDS,
        "How long downstream is given to go quiet before the old version ends.",
        blank="it is not waited for",
        examples=("PT1M",),
        section=STEPS,
    )


def main(folder: str, file: str) -> None:
    options.UpdateOptions = Extended  # type: ignore[misc]
    options.OPTIONS = options.options_of(Extended)

    from airflow.sdk import DAG
    from click.testing import CliRunner

    from airflow_provider_streamupdate.cli import main as command
    from airflow_provider_streamupdate.control.client import StreamUpdateClient
    from airflow_provider_streamupdate.control.update.engine import UpdateEngine
    from airflow_provider_streamupdate.example_dags.stream_update import PARAMS, dag
    from airflow_provider_streamupdate.hooks.settings import Settings
    from airflow_provider_streamupdate.hooks.update_options import update_options
    from airflow_provider_streamupdate.release import FIELDS
    from airflow_provider_streamupdate.update_dag import stream_update

    reached = []

    def engine(self: UpdateEngine, client: StreamUpdateClient, asked: Extended, progress: object) -> None:
        reached.append(asked.quiet_for)
        raise SystemExit(0)

    UpdateEngine.__init__ = engine  # type: ignore[assignment, method-assign]
    StreamUpdateClient.look_ahead = lambda *_: None  # type: ignore[assignment, method-assign]
    done = CliRunner().invoke(command, ["update", file, "--root", folder, "--quiet-for", "90"])
    assert reached, done.output
    with DAG("d", schedule=None) as another:
        stream_update(app="a", application=file, quiet_for="PT5S")  # type: ignore[call-arg]
    given = another.get_task("update.snapshot").options
    seen = {
        "command line's help": CliRunner().invoke(command, ["update", "--help"]).output,
        "command line": reached[0],
        "form": PARAMS["quiet_for"].description,
        "template": dag.get_task("update.plan").options["quiet_for"],
        "help(stream_update)": stream_update.__doc__,
        "DAG's tasks": given["quiet_for"],
        "DAG": getattr(update_options(given, Settings(conn_id="c", root=folder), "me"), "quiet_for", None),
        "release": "quiet_for" in FIELDS,
    }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
