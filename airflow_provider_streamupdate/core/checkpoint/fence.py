"""A fence in a checkpoint: while it stands, no query that uses the checkpoint can begin a batch.

A driver on a machine that cannot be inspected, and that has been silent for long, may still run when another deployment
becomes current. At its next heartbeat it learns that its epoch is over, but a batch may begin before that. Spark
itself keeps two queries from running the same batch: each begins with the exclusive creation of its entry in the
offset log, and a query that finds the entry there fails ("Multiple streaming jobs detected":
MicroBatchExecution.markMicroBatchStart, HDFSMetadataLog.write). So the process that takes over creates the entry of the
batch that would be next. The batch that is under way can still end; the deployment that took over starts after the last
committed one, so that it runs that batch, too, under the same number.
"""

from __future__ import annotations

from .checkpoint import FENCE, Checkpoint


def fence(checkpoint: Checkpoint) -> int:
    """Block every batch after those in the offset log; return the number of the blocked batch."""
    while (fenced := checkpoint.fenced()) is None:
        # The batch may have just begun; or, where the call took long, be so old that its entry was removed again.
        logged = checkpoint.logged_batch()
        checkpoint.folder.create(f"offsets/{0 if logged is None else logged + 1}", FENCE)
    return fenced


def unfence(checkpoint: Checkpoint) -> None:
    """Remove the fence, for the driver that is to run the checkpoint's query again in its own epoch."""
    if (batch := checkpoint.fenced()) is not None:
        checkpoint.folder.remove(f"offsets/{batch}")
