"""The lock of scripts/setup.sh, in real processes: never two at work, also after an owner died with others waiting."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ROUNDS, WAITING = 50, 4
# One setup. It notes when another one is at work as well; the first of a round is killed at its work.
SETUP = """
. scripts/setup/system.sh
. scripts/setup/lock.sh
LOCKS=$1/locks
take_lock >>"$1/said"
mkdir "$1/at-work" 2>/dev/null || echo "round $2" >>"$1/two"
echo $$ >>"$1/done"
if mkdir "$1/killed-$2" 2>/dev/null; then rmdir "$1/at-work"; kill -9 $$; fi
sleep 0.01
rmdir "$1/at-work"
release_lock
"""
ALL = """
set -u
export SETUP_POLL_SECONDS=0.02
mkdir "$1/locks"
for round in $(seq "$3"); do
    true & gone=$!
    wait $gone
    : >"$1/locks/$gone"
    for _ in $(seq "$4"); do bash -euo pipefail "$2" "$1" "$round" & done
    wait
done 2>"$1/err"
"""


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_never_two_setups_at_work_when_an_owner_died(tmp_path: Path) -> None:
    script, loop = tmp_path / "setup.sh", tmp_path / "all.sh"
    script.write_text(SETUP)
    loop.write_text(ALL)
    words = [str(w) for w in ("bash", loop, tmp_path, script, ROUNDS, WAITING)]
    # in a session of its own: bash looks after its terminal when a child is killed, and would be stopped
    subprocess.run(words, cwd=REPOSITORY, check=True, timeout=280, start_new_session=True)
    assert not (tmp_path / "two").exists(), (tmp_path / "two").read_text()
    assert len((tmp_path / "done").read_text().split()) == ROUNDS * WAITING, (tmp_path / "err").read_text()[-2000:]
    assert len(list(tmp_path.glob("killed-*"))) == ROUNDS
    assert "is running; waiting for it" in (tmp_path / "said").read_text()
    left = [int(file.name) for file in (tmp_path / "locks").iterdir()]
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()], "what is left is of processes that are gone"


def test_a_setup_waits_for_one_at_work_and_says_so(tmp_path: Path) -> None:
    script = tmp_path / "setup.sh"
    script.write_text(SETUP)
    (tmp_path / "killed-1").mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "locks").mkdir()
        (tmp_path / "locks" / str(other.pid)).touch()
        words = ["bash", "-euo", "pipefail", str(script), str(tmp_path), "1"]
        with subprocess.Popen(
            words, cwd=REPOSITORY, env={"PATH": "/usr/bin:/bin", "SETUP_POLL_SECONDS": "0.02"}
        ) as mine:
            while not (tmp_path / "said").exists() or not (tmp_path / "said").read_text():
                assert mine.poll() is None
                time.sleep(0.02)
            assert (tmp_path / "said").read_text() == (
                f"setup: another setup (process {other.pid}) is running; waiting for it\n"
            )
            assert not (tmp_path / "done").exists()
            other.kill()
            other.wait()
            assert mine.wait(60) == 0
    assert (tmp_path / "done").exists() and list((tmp_path / "locks").iterdir()) == []
