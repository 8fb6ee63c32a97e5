"""What the benchmarks' apps read, and when they committed."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from pathlib import Path

from airflow_provider_streamupdate.control.waiting import wait_for

FILE_ROWS = 200  # a file of the feed
FEED_SECONDS = 0.2
FIRST_FILE = 1_000_000  # rows; more keys come in several files
KEPT_FILES = 1000  # of the feed, the newest: every file there costs each batch time, and more of it by the minute
COMMIT_SECONDS = 300.0
BIG_SECONDS = 3600.0  # for what takes as long as the state is big


class Feed:
    """A folder that gets all keys once and then small files, until the block ends, but not while it is `quiet`. Of
    those the newest stay, which are more than an app is ever behind: 200 s. All stay until the app has `loaded` the
    keys, where these are so large that it takes longer (measured with 10 GB: a driver ended for a missing file)."""

    def __init__(
        self, folder: Path, keys: int, first_file: int = FIRST_FILE, rows: int = FILE_ROWS, every: float = FEED_SECONDS
    ) -> None:
        """first_file: rows of each file that brings all keys; rows: of each of the small files; every: seconds
        from one of these to the next"""
        self.folder, self.keys, self.first_file, self.rows = folder, keys, first_file, rows
        self.files, self.every = 0, every
        self.quiet = threading.Event()
        self.loaded = threading.Event()
        if first_file == FIRST_FILE:
            self.loaded.set()
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Feed:
        self.folder.mkdir(parents=True)
        for start in range(0, self.keys, self.first_file):
            self.write(range(start, min(start + self.first_file, self.keys)))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def first_files(self) -> int:
        """How many of the files hold all keys once."""
        return -(-self.keys // self.first_file)

    def change(self, share: float) -> int:
        """Have so many of the keys come once more, each once; how many."""
        keys = random.sample(range(self.keys), int(self.keys * share))
        self.write(keys)
        return len(keys)

    def _feed(self) -> None:
        while not self._over.wait(self.every):
            if not self.quiet.is_set():
                self.write(random.choices(range(self.keys), k=self.rows))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:07d}.json"

    def write(self, keys: range | list[int]) -> None:
        text = "".join(f'{{"k":{key}}}\n' for key in keys)
        with self._writing:
            temporary = self.folder.parent / "next.json"
            temporary.write_text(text)
            os.utime(temporary, (1_700_000_000 + self.files,) * 2)  # Spark orders files by their time
            os.rename(temporary, self._path(self.files))
            self.files += 1
            if self.loaded.is_set() and (old := self.files - 1 - KEPT_FILES) >= self.first_files:  # read long ago
                self._path(old).unlink(missing_ok=True)


class CommitLog:
    """The times of the entries of a Spark checkpoint's commit log, and of its offset log."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint

    def times(self, log: str = "commits") -> dict[int, float]:
        """Seconds since the epoch, by batch."""
        folder, found = self.checkpoint / log, {}
        for path in folder.glob("*") if folder.exists() else ():
            with contextlib.suppress(FileNotFoundError):  # Spark purges old ones
                if path.name.isdigit():
                    found[int(path.name)] = path.stat().st_mtime
        return found

    def newest(self) -> int:
        return max(self.times(), default=-1)

    def after(self, batch: int) -> float:
        """Seconds from a batch's commit to the next one's, which is waited for."""
        wait_for(lambda: batch + 1 in self.times() or None, f"batch {batch + 1}", COMMIT_SECONDS, 0.1)
        times = self.times()
        return times[batch + 1] - times[batch]

    def gap_around(self, moment: float) -> float:
        times = sorted(self.times().values())
        later = next(t for t in times if t > moment)
        return later - times[times.index(later) - 1]

    def wait(self, batches: int) -> None:
        """Until so many batches have committed."""
        wait_for(lambda: self.newest() >= batches - 1 or None, f"{batches} batches", BIG_SECONDS, 0.5)

    def wait_saved(self, since: float) -> None:
        """Until every partition of the (one) operator's state has a full copy written after `since`. Between two of
        them a restart also replays the changes, which is long just after millions of keys came at once."""

        def saved() -> bool | None:
            partitions = [p for p in (self.checkpoint / "state" / "0").glob("*") if p.name.isdigit()]
            times = [[z.stat().st_mtime for z in p.glob("*.zip")] for p in partitions]
            return (bool(times) and all(max(t, default=0.0) > since for t in times)) or None

        wait_for(saved, "a full copy of the state in the checkpoint", BIG_SECONDS, 0.5)
