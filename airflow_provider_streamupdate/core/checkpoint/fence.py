"""A fence in a checkpoint: while it stands, no query that uses the checkpoint can begin a batch.

A driver on a machine nobody can look at, of which nothing was heard for long, may still run when another deployment
becomes current. Its heartbeat tells it that its epoch is over, but a batch may begin before the next one. Spark
itself keeps two queries from running the same batch: each begins with the exclusive creation of its entry in the
offset log, and a query that finds the entry there fails ("Multiple streaming jobs detected":
MicroBatchExecution.markMicroBatchStart, HDFSMetadataLog.write). So whoever takes over creates the entry of the batch
that would be next. The batch that is under way can still end; the deployment that took over starts after the last
committed one, so that it runs that batch, too, under the same number.
"""

from __future__ import annotations

from .checkpoint import FENCE, Checkpoint


def put_up(checkpoint: Checkpoint) -> int:
    """Let no batch begin after those in the offset log; the number of the batch that cannot."""
    while not checkpoint.fenced():
        logged = checkpoint.logged_batch()
        if checkpoint.folder.create(f"offsets/{0 if logged is None else logged + 1}", FENCE):
            break  # else that batch has just begun
    fenced = checkpoint.fenced()
    assert fenced is not None
    return fenced


def take_down(checkpoint: Checkpoint) -> None:
    """For the driver that is to run the checkpoint's query again, in an epoch of its own."""
    if (batch := checkpoint.fenced()) is not None:
        checkpoint.folder.remove(f"offsets/{batch}")
