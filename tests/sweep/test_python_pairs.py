"""Pairs of apps whose results differ have other digests, or are unknown by name; equal apps have equal ones."""

from __future__ import annotations

import time
from pathlib import Path

from tests.sweep.python_apps import run, write
from tests.sweep.python_pairs import MAIN, PAIRS, STABLE


def test_a_pair_with_other_results_has_other_digests(tmp_path: Path) -> None:
    jobs = [
        {"folder": str(write(tmp_path / str(i) / kind, files)), "inputs": (), "results": False}
        for i, pair in enumerate(PAIRS)
        for kind, files in zip(("old", "new"), pair.versions(), strict=True)
    ]
    found = run(jobs)
    assert all("fails" not in outcome for outcome in found), [o for o in found if "fails" in o]
    outcomes = zip(PAIRS, found[::2], found[1::2], strict=True)
    silent = [pair.name for pair, old, new in outcomes if old["digest"] and old["digest"] == new["digest"]]
    assert not silent


def test_equal_apps_have_equal_digests(tmp_path: Path) -> None:
    """In bounded time."""
    found = []
    started = time.monotonic()
    for seed, place in (("1", "a"), ("77", "another/place")):
        folders = [
            write(tmp_path / place / str(i), {"app.py": MAIN, "helpers.py": source + "\n"})
            for i, source in enumerate(STABLE.values())
        ]
        found.append(run([{"folder": str(f), "inputs": (), "results": False} for f in folders], seed))
    assert time.monotonic() - started < 60
    for name, one, other in zip(STABLE, *found, strict=True):
        assert one["digest"], (name, one)
        assert one["digest"] == other["digest"], name
