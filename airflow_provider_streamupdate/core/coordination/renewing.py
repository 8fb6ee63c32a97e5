"""The sign of life of a process that holds a lease."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ..errors import StreamUpdateError
from ..storage import Folder
from . import lease
from .lease import Lease

RENEW_SECONDS = 5.0  # between two signs of life


@contextlib.contextmanager
def renewing(folder: Folder, held: Lease) -> Iterator[None]:
    """Renew the lease every RENEW_SECONDS inside the block."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(RENEW_SECONDS):
            with contextlib.suppress(StreamUpdateError):  # the storage may be back the next time
                if lease.renew(folder, held, held.seconds) is None:
                    return  # lost; the block's next step finds out

    thread = threading.Thread(target=renew, name=f"lease {held.owner}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
