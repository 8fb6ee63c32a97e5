"""The trigger that watches for a new version of an app, for DAGs that are scheduled on it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from ..core.errors import StreamUpdateError
from ..hooks.settings import DEFAULT_CONN_ID
from ..hooks.streamupdate import StreamUpdateHook
from ..hooks.xcom import plain
from ..release import application_of, read_release, release_needed

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient

log = logging.getLogger(__name__)


class ReleaseTrigger(BaseEventTrigger):
    """Fires each time that an app has to be updated to what a release file describes, as `stream_release` decides.

    The event is a dict with ``app``, ``application`` and ``digest``. One content of the release fires once, and
    once more after the triggerer has started again. What cannot be read is logged and looked at again.

    release_file: path of the file, which the triggerer can read, as it can the files that it names
    streamupdate_conn_id: the connection
    poll_interval: seconds between polls
    """

    def __init__(
        self, release_file: str, streamupdate_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 30.0
    ) -> None:
        super().__init__()
        self.release_file = release_file
        self.streamupdate_conn_id = streamupdate_conn_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = ("release_file", "streamupdate_conn_id", "poll_interval")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in arguments}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        seen, said = "", ""
        while True:
            try:
                client = await StreamUpdateHook.async_client(self.streamupdate_conn_id)
                content, event, reason = await asyncio.to_thread(self._read, client)
            except (StreamUpdateError, OSError) as error:  # a file that is being replaced
                content, event, reason = seen, None, str(error)
            if reason != said:
                log.info("release %s: %s", self.release_file, reason)
                said = reason
            if event is not None and content != seen:
                seen = content
                yield TriggerEvent(plain(event))
            await asyncio.sleep(self.poll_interval)

    def _read(self, client: StreamUpdateClient) -> tuple[str, dict[str, Any] | None, str]:
        """Return the release's content, the event if it has to be brought in, and why or why not."""
        release = read_release(self.release_file)
        needed, reason = release_needed(client, release)
        digest = application_of(release).digest()
        event = {"app": release["app"], "application": release["application"], "digest": digest}
        return json.dumps([release, digest], default=str), event if needed else None, reason
