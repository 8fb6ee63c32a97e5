"""Pairs of apps whose results differ have other digests, or are unknown by name; equal apps have equal ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.sweep.python_apps import run, write
from tests.sweep.python_on_import import COMPILED_PAIRS, EFFECTS, LAZY_PAIRS
from tests.sweep.python_pairs import (
    EQUAL,
    MAIN,
    NAMESPACE_PACKAGE,
    NAMESPACE_PAIRS,
    PAIRS,
    REGISTRY_PACKAGE,
    REGISTRY_PAIRS,
    STABLE,
    UNREACHED,
    Pair,
)
from tests.sweep.python_texts import EQUAL_TEXTS, GIVEN_PAIRS, NOT_GIVEN_PAIRS, PARTITIONS, READER, TOLD_APART

Outcome = dict[str, Any]


def digests(folder: Path, apps: list[dict[str, str]], hash_seed: str = "0", **job: str) -> list[Outcome]:
    folders = [write(folder / str(i), files) for i, files in enumerate(apps)]
    found = run([{"folder": str(f), "inputs": (), "results": False, **job} for f in folders], hash_seed)
    assert all("fails" not in outcome for outcome in found), [o for o in found if "fails" in o]
    assert all(outcome["digest"] or outcome["unknown"] for outcome in found)
    return found


def compared(folder: Path, pairs: list[Pair], **job: str) -> list[tuple[Pair, Outcome, Outcome]]:
    """Both versions of each, which have digests."""
    found = digests(folder, [files for pair in pairs for files in pair.versions()], **job)
    outcomes = list(zip(pairs, found[::2], found[1::2], strict=True))
    assert not [(pair.name, old["unknown"]) for pair, old, _ in outcomes if not old["digest"]]
    return outcomes


CASES = {  # pairs, what is installed beside the app, whether they are equal
    "pairs": (PAIRS, {}, False),
    "on import": (EFFECTS, {}, False),
    "texts": (TOLD_APART, {}, False),
    "what an installed package registers": (REGISTRY_PAIRS, REGISTRY_PACKAGE, False),
    "the app's part of an installed package": (NAMESPACE_PAIRS, NAMESPACE_PACKAGE, False),
    "texts that a package is given": (GIVEN_PAIRS, READER, False),
    "texts that no package is given": (NOT_GIVEN_PAIRS, READER, True),
    "what nothing looks at": ([*EQUAL, *EQUAL_TEXTS], {}, True),
}


@pytest.mark.parametrize(("pairs", "package", "is_equal"), CASES.values(), ids=CASES)
def test_a_pair_with_other_results_has_other_digests(
    tmp_path: Path, pairs: list[Pair], package: dict[str, str], is_equal: bool
) -> None:
    job = {"site": str(write(tmp_path / "site", package))} if package else {}
    outcomes = compared(tmp_path, pairs, **job)
    assert not [pair.name for pair, old, new in outcomes if (old["digest"] == new["digest"]) != is_equal]
    assert package is not READER or all("reader 1.0" in old["packages"] for _, old, _ in outcomes)


@pytest.mark.slow
def test_equal_apps_have_equal_digests(tmp_path: Path) -> None:
    """In another process, of another folder; in bounded time."""
    apps = {name: {"app.py": MAIN, "helpers.py": source + "\n"} for name, source in STABLE.items()}
    started = time.monotonic()
    check_same_elsewhere(tmp_path, apps)
    assert time.monotonic() - started < 60
    check_same_elsewhere(tmp_path / "on import", {pair.name: pair.versions()[0] for pair in EFFECTS})


def check_same_elsewhere(folder: Path, apps: dict[str, dict[str, str]]) -> None:
    places = (("1", "a"), ("77", "another/place"))
    found = [digests(folder / place, list(apps.values()), seed) for seed, place in places]
    outcomes = list(zip(apps, *found, strict=True))
    assert not [(name, one["unknown"]) for name, one, _ in outcomes if not one["digest"]]
    assert not [name for name, one, other in outcomes if one["digest"] != other["digest"]]


def test_definitions_that_are_not_reached_are_nothing(tmp_path: Path) -> None:
    """As if they were not there."""
    last = "\ndef f(x):\n    return x + 1\n"
    sources = ["", *(source.replace("@@", by) for source in UNREACHED for by in "34")]
    found = digests(tmp_path, [{"app.py": MAIN, "helpers.py": source + last} for source in sources])
    alone = found[0]["digest"]
    assert alone
    assert not [source for source, outcome in zip(sources, found, strict=True) if outcome["digest"] != alone]


def test_what_tells_the_partition_cannot_be_compared(tmp_path: Path) -> None:
    apps = [{"app.py": MAIN, "helpers.py": f"{source}def f(x): return g()\n"} for source in PARTITIONS.values()]
    found = zip(PARTITIONS, digests(tmp_path, apps), strict=True)
    assert not [name for name, outcome in found if "TaskContext" not in " ".join(outcome["unknown"])]


def test_a_module_without_source_counts_by_its_code(tmp_path: Path) -> None:
    outcomes = compared(tmp_path / "a", COMPILED_PAIRS)
    assert not [pair.name for pair, old, new in outcomes if old["digest"] == new["digest"]]
    check_same_elsewhere(tmp_path, {pair.name: pair.versions()[0] for pair in COMPILED_PAIRS})


def test_what_was_described_before_says_nothing(tmp_path: Path) -> None:
    """Describing a function imports what it imports when it runs."""
    outcomes = compared(tmp_path, LAZY_PAIRS, again="yes")
    assert all(each["digest"] == each["again"] for _, *both in outcomes for each in both)
    assert not [pair.name for pair, old, new in outcomes if old["digest"] == new["digest"]]
