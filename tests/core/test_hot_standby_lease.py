"""When a hot standby takes the app's lease from a holder that it cannot look at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.coordination import lease
from airflow_provider_streamupdate.core.processes.process_identity import ProcessIdentity
from airflow_provider_streamupdate.core.processes.pulse import Pulse
from airflow_provider_streamupdate.core.registry.deployment import SILENT_SECONDS
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent.roles.hot_standby import HotStandby

HERE = ProcessIdentity.own()
ELSEWHERE = attrs.evolve(HERE, boot="another machine's", host="another")


@pytest.mark.parametrize("seconds", [0.0, 1800.0])
def test_a_holder_elsewhere_is_gone_once_it_is_silent_and_its_lease_is_over(tmp_path, seconds: float) -> None:
    """Found from outside: it was waited for for good, so that an app stayed down whose machine had died."""
    folder, now = Folder.open(str(tmp_path)), [0.0]
    driver: Any = SimpleNamespace(app=SimpleNamespace(folder=folder))
    role = HotStandby(driver)
    role._holder = Pulse(seconds=lambda: now[0])
    held = lease.acquire(folder, "v1", ELSEWHERE, seconds=seconds, work="a restart")
    held = attrs.evolve(held, uptime=None)
    assert ELSEWHERE.lives() is None and role._works(held)
    now[0] = SILENT_SECONDS - 1
    assert role._works(held)
    moment = "2026-11-01T00:00:00+00:00"
    renewed = attrs.evolve(held, renewed_at=moment, expires_at=moment if not seconds else held.expires_at)
    assert role._works(renewed), "a sign of life"
    now[0] += SILENT_SECONDS - 1
    assert role._works(renewed)
    now[0] += 1
    assert role._works(renewed) == (seconds > 0)
    assert role._works(attrs.evolve(held, holder=HERE)) and role._works(attrs.evolve(held, holder=None))
    assert not role._works(attrs.evolve(held, holder=attrs.evolve(HERE, start=HERE.start + 1)))
