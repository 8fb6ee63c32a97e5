"""The command standby: give an app a hot standby."""

from __future__ import annotations

import click

from ..option_types import Duration
from ..output import print_result
from ..progress import progress
from ..settings import Settings, pass_settings, shared


@click.command(short_help="Give an app a hot standby, or end it.")
@click.argument("switch", type=click.Choice(["on", "off"]))
@click.argument("app")
@click.option("--timeout", type=Duration(), default="300", show_default=True, help="How long it may take to stand by.")
@shared
@pass_settings
def standby(settings: Settings, switch: str, app: str, timeout: float) -> None:
    """Start a second driver of APP that takes over when the first one dies, or end it.

    The hot standby has the code and the parameters of the current deployment, under an id of its own. It runs that
    one's batches on a copy of the state and writes nothing. When the current driver is killed or lost, it claims the
    next epoch and continues with the batch in flight. It reads no state then, so the time does not depend on its size.
    It costs a second driver's resources all the time.

    After a takeover the app has no hot standby until a supervisor (supervise) or this command starts another one. An
    update ends it; a supervisor starts one of the new version.

    \b
    Examples:
      streamupdate standby on flight-windows
      streamupdate standby off flight-windows
    """
    client = settings.client_of(app)
    if switch == "off":
        ended = client.stand_down(app)
        said = f"{app} has no hot standby" + (f"; {ended} has ended" if ended else "")
        print_result(settings, {"app": app, "hot_standby": None, "ended": ended}, said)
        return
    interrupted = f"if its driver was started, it keeps running (streamupdate status {app}); else run the command again"
    with progress(f"starting a hot standby of {app}", interrupted) as report:
        found = client.stand_by(app, timeout, report)
    print_result(settings, {"app": app, "hot_standby": found}, f"{found.deployment} stands by for {app}")
