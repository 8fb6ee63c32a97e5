"""Eight processes that fight for one app's lease and its epochs, while some of them are killed and others stand still:
of two who hold the lease, or have claimed an epoch, at the same time, one would be a second writer.

Who is right is judged without the storage: a lock of this machine's kernel (flock), which ends with its process, and
what each process wrote down of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from airflow_provider_streamupdate.control.app_lease import holding
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import FencedError, LeaseHeldError, StorageError
from airflow_provider_streamupdate.core.registry.deployment import Current
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry

FIGHTERS, SECONDS = 8, 60.0
OWNERS = ("v1", "v2", "v3")

# What a fighter says: it held the lease, another one had it too, it was refused; it claimed an epoch, another one was
# faster; the storage failed it, and nobody can know who has an epoch.
HELD, TWO, REFUSED, CLAIMED, LATE, FAILED, UNKNOWN = "held", "two", "refused", "claimed", "late", "failed", "unknown"


@attrs.frozen
class Outcome:
    """said: how often what was said; killed, held_up: how often a fighter was; double: epochs that two have claimed;
    taken_away: claims that the registry gives to another one; missing: epochs that nobody has, below the last"""

    said: Counter[str]
    killed: int
    held_up: int
    double: list[int]
    taken_away: list[int]
    missing: list[int]

    def check(self, held: int, claimed: int, failing: bool = False) -> None:
        """At least so many must have held the lease, and claimed an epoch; else nothing was fought for. failing: the
        storage was made to fail."""
        print(f"{dict(self.said)}; {self.killed} killed, {self.held_up} held up")
        assert self.said[TWO] == 0, "two held the lease at once"
        assert not self.double and not self.taken_away and not self.missing, self
        assert self.said[HELD] >= held and self.said[CLAIMED] >= claimed
        assert self.said[REFUSED] and self.said[LATE] and self.killed and self.held_up
        assert failing or not (self.said[FAILED] or self.said[UNKNOWN])


def fight(root: str, folder: Path, options: dict[str, Any] | None = None, seconds: float = SECONDS) -> Outcome:
    """Fight under a root for so many seconds; `folder` is on this machine."""
    spawn = multiprocessing.get_context("spawn")
    over, chance, killed, held_up, count = folder / "over", random.Random(seconds), 0, 0, 0

    def start() -> Any:
        nonlocal count
        count += 1
        made = spawn.Process(target=fighter, args=(root, options, str(folder), count))
        made.start()
        return made

    def begun(fighter: Any) -> bool:
        return (folder / f"{fighter.name}.said").exists()

    fighters = [start() for _ in range(FIGHTERS)]
    everyone = list(fighters)
    try:
        wait_for(lambda: all(begun(f) for f in fighters) or None, "the fighters", 120)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            place = chance.randrange(FIGHTERS)
            struck = fighters[place]
            time.sleep(chance.uniform(0.2, 1.5))  # the pace of what happens to them
            if not begun(struck):
                continue
            assert struck.exitcode is None, f"a fighter ended by itself: {struck.exitcode}"
            if chance.random() < 0.25:
                os.kill(struck.pid, signal.SIGKILL)
                struck.join()
                killed += 1
                everyone.append(start())
                fighters[place] = everyone[-1]
            else:
                os.kill(struck.pid, signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 1.0))
                os.kill(struck.pid, signal.SIGCONT)
                held_up += 1
        over.touch()  # a lock of theirs could die with one of them
        for process in fighters:
            process.join(120)
            assert process.exitcode == 0, f"a fighter ended with {process.exitcode}"
    finally:
        over.touch()
        for process in everyone:
            process.kill()
    return _outcome(Registry(root, options).app("fought"), folder, killed, held_up)


def fighter(root: str, options: dict[str, Any] | None, folder: str, number: int) -> None:
    os.fsync = lambda _: None  # type: ignore[assignment] # nobody pulls the plug
    me, chance = f"fighter-{number}", random.Random(number)
    with open(Path(folder) / f"{multiprocessing.current_process().name}.said", "w", buffering=1) as said:
        while not (Path(folder) / "over").exists():
            app = Registry(root, options).app("fought")  # each try is one of its own, as an operator's or a driver's is
            try:
                if chance.random() < 0.3:  # a driver claims its epoch without the lease
                    claim(app, me, said, chance)
                    continue
                with holding(app, chance.choice(OWNERS), "fight"):
                    with alone(Path(folder) / "witness") as alone_with_it:
                        for _ in range(chance.randrange(3)):
                            claim(app, me, said, chance)
                        say(said, HELD if alone_with_it else TWO)
            except LeaseHeldError:
                say(said, REFUSED)
                time.sleep(chance.uniform(0, 0.05))
            except FencedError:
                say(said, UNKNOWN)
            except StorageError as error:
                say(said, FAILED, str(error))


def claim(app: AppRegistry, me: str, said: Any, chance: random.Random) -> None:
    current = app.current()
    epoch = current.epoch + 1 if current else 1
    mine = Current(deployment=f"{me}-{chance.randrange(10**9)}", epoch=epoch)
    say(said, CLAIMED if app.claim(mine) else LATE, mine.deployment, epoch)


def say(said: Any, *words: Any) -> None:
    said.write(json.dumps(words) + "\n")


@contextlib.contextmanager
def alone(witness: Path) -> Iterator[bool]:
    """Whether nobody else is in this block."""
    with witness.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _outcome(app: AppRegistry, folder: Path, killed: int, held_up: int) -> Outcome:
    said: list[list[Any]] = []
    for file in folder.glob("*.said"):
        lines = file.read_text().split("\n")
        said += [json.loads(line) for line in lines[:-1]]  # the last one may have been cut short
    claims = [(epoch, who) for what, *more in said if what == CLAIMED for who, epoch in [more]]
    times = Counter(epoch for epoch, _ in claims)
    last = app.current()
    assert last is not None
    with holding(app, "afterwards"):  # whoever died with it keeps it from nobody
        pass
    has = {epoch: json.loads(text)["deployment"] for epoch in range(1, last.epoch + 1) if (text := _claim(app, epoch))}
    return Outcome(
        said=Counter(what for what, *_ in said),
        killed=killed,
        held_up=held_up,
        double=[epoch for epoch, count in times.items() if count > 1],
        taken_away=[epoch for epoch, who in claims if has.get(epoch) != who],
        missing=[epoch for epoch in range(1, last.epoch + 1) if epoch not in has],
    )


def _claim(app: AppRegistry, epoch: int) -> bytes | None:
    return app.folder.read(f"epochs/{epoch}.json")
