"""Pairs of apps whose results differ have other digests, or are unknown by name; equal apps have equal ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.sweep.python_apps import run, write
from tests.sweep.python_on_import import EFFECTS
from tests.sweep.python_pairs import (
    ABOVE,
    BELOW,
    IN_NAMESPACE,
    MAIN,
    MINE,
    NAMESPACE_PACKAGE,
    PAIRS,
    REGISTRY,
    REGISTRY_PACKAGE,
    STABLE,
    UNREACHED,
    Pair,
)
from tests.sweep.python_settled import COMPILED, COMPILES, DRIVERS, INNER, LAZILY, LAZY, PLUG, SETTLED
from tests.sweep.python_texts import EQUAL, GIVEN, NOT_GIVEN, PARTITIONS, READER, TOLD_APART


def digests(folder: Path, apps: list[dict[str, str]], hash_seed: str = "0", **job: str) -> list[dict[str, Any]]:
    folders = [write(folder / str(i), files) for i, files in enumerate(apps)]
    found = run([{"folder": str(f), "inputs": (), "results": False, **job} for f in folders], hash_seed)
    assert all("fails" not in outcome for outcome in found), [o for o in found if "fails" in o]
    return found


@pytest.mark.parametrize(
    "pairs",
    [PAIRS, EFFECTS[::6], TOLD_APART, DRIVERS, pytest.param(EFFECTS, marks=pytest.mark.slow)],
    ids=["pairs", "some on import", "texts", "driver", "on import"],
)
def test_a_pair_with_other_results_has_other_digests(tmp_path: Path, pairs: list[Pair]) -> None:
    found = digests(tmp_path, [files for pair in pairs for files in pair.versions()])
    outcomes = zip(pairs, found[::2], found[1::2], strict=True)
    silent = [pair.name for pair, old, new in outcomes if old["digest"] and old["digest"] == new["digest"]]
    assert not silent


def test_what_an_installed_package_registers_counts(tmp_path: Path) -> None:
    site = write(tmp_path / "site", REGISTRY_PACKAGE)
    pairs = [Pair(name, "3", "4", {"app.py": MAIN, "helpers.py": source}) for name, source in REGISTRY.items()]
    found = digests(tmp_path, [files for pair in pairs for files in pair.versions()], site=str(site))
    outcomes = zip(pairs, found[::2], found[1::2], strict=True)
    assert not [pair.name for pair, old, new in outcomes if old["digest"] and old["digest"] == new["digest"]]


def test_the_app_s_part_of_an_installed_package_counts(tmp_path: Path) -> None:
    site = write(tmp_path / "site", NAMESPACE_PACKAGE)
    apps = [{"app.py": MAIN, "helpers.py": source, "acme/mine.py": MINE} for source in IN_NAMESPACE.values()]
    pairs = [Pair(name, "3", "4", files) for name, files in zip(IN_NAMESPACE, apps, strict=True)]
    found = digests(tmp_path, [files for pair in pairs for files in pair.versions()], site=str(site))
    outcomes = zip(pairs, found[::2], found[1::2], strict=True)
    assert not [pair.name for pair, old, new in outcomes if old["digest"] == new["digest"] or not old["digest"]]


@pytest.mark.slow
def test_equal_apps_have_equal_digests(tmp_path: Path) -> None:
    """In bounded time."""
    apps = [{"app.py": MAIN, "helpers.py": source + "\n"} for source in STABLE.values()]
    started = time.monotonic()
    found = [digests(tmp_path / place, apps, seed) for seed, place in (("1", "a"), ("77", "another/place"))]
    assert time.monotonic() - started < 60
    for name, one, other in zip(STABLE, *found, strict=True):
        assert one["digest"], (name, one)
        assert one["digest"] == other["digest"], name


def test_what_stands_above_is_nothing(tmp_path: Path) -> None:
    apps = [{"app.py": MAIN, "helpers.py": above + source} for source in BELOW.values() for above in ("", ABOVE)]
    found = [outcome["digest"] for outcome in digests(tmp_path, apps)]
    assert all(found)
    assert not [name for name, one, other in zip(BELOW, found[::2], found[1::2], strict=True) if one != other]


@pytest.mark.slow
def test_what_importing_does_is_the_same_in_another_process(tmp_path: Path) -> None:
    apps = [pair.versions()[0] for pair in EFFECTS]
    found = [digests(tmp_path / place, apps, seed) for seed, place in (("1", "a"), ("77", "another/place"))]
    outcomes = list(zip(EFFECTS, *found, strict=True))
    assert not [(pair.name, one["unknown"]) for pair, one, _ in outcomes if not one["digest"]]
    assert not [pair.name for pair, one, other in outcomes if one["digest"] != other["digest"]]


def test_definitions_that_are_not_reached_are_nothing(tmp_path: Path) -> None:
    """As if they were not there."""
    last = "\ndef f(x):\n    return x + 1\n"
    sources = ["", *(source.replace("@@", by) for source in UNREACHED for by in "34")]
    found = digests(tmp_path, [{"app.py": MAIN, "helpers.py": source + last} for source in sources])
    alone = found[0]["digest"]
    assert alone
    assert not [source for source, outcome in zip(sources, found, strict=True) if outcome["digest"] != alone]


def test_what_nothing_looks_at_is_nothing(tmp_path: Path) -> None:
    found = digests(tmp_path, [files for pair in EQUAL for files in pair.versions()])
    outcomes = list(zip(EQUAL, found[::2], found[1::2], strict=True))
    assert not [(pair.name, old["unknown"]) for pair, old, _ in outcomes if not old["digest"]]
    assert not [pair.name for pair, old, new in outcomes if old["digest"] != new["digest"]]


@pytest.mark.parametrize(("sources", "is_equal"), [(GIVEN, False), (NOT_GIVEN, True)], ids=["given", "not given"])
def test_a_package_reads_the_texts_of_what_it_is_given(tmp_path: Path, sources: dict[str, str], is_equal: bool) -> None:
    """Comments and lines are read by nobody but tracebacks."""
    site = write(tmp_path / "site", READER)
    pairs = [Pair(name, "one", "a\nb", {"app.py": MAIN, "helpers.py": source}) for name, source in sources.items()]
    found = digests(tmp_path, [files for pair in pairs for files in pair.versions()], site=str(site))
    outcomes = list(zip(pairs, found[::2], found[1::2], strict=True))
    assert all(old["digest"] and "reader 1.0" in old["packages"] for _, old, _ in outcomes)
    assert not [pair.name for pair, old, new in outcomes if (old["digest"] == new["digest"]) != is_equal]


def test_what_tells_the_partition_cannot_be_compared(tmp_path: Path) -> None:
    apps = [{"app.py": MAIN, "helpers.py": f"{source}def f(x): return g()\n"} for source in PARTITIONS.values()]
    found = zip(PARTITIONS, digests(tmp_path, apps), strict=True)
    assert not [name for name, outcome in found if "TaskContext" not in " ".join(outcome["unknown"])]


def test_what_workers_have_as_well_is_not_taken_as_it_is_written(tmp_path: Path) -> None:
    pairs = [Pair(name, "aa", "bb", {"app.py": MAIN, "helpers.py": source}) for name, source in SETTLED.items()]
    found = digests(tmp_path, [files for pair in pairs for files in pair.versions()])
    outcomes = list(zip(pairs, found[::2], found[1::2], strict=True))
    assert not [(pair.name, old["unknown"]) for pair, old, _ in outcomes if not old["digest"]]
    assert not [pair.name for pair, old, new in outcomes if old["digest"] != new["digest"]]


def test_a_module_without_source_counts_by_its_code(tmp_path: Path) -> None:
    apps = [{"app.py": COMPILES, "compiled.txt": source, "inner.py": INNER} for source in COMPILED.values()]
    pairs = [Pair(name, "3", "4", files) for name, files in zip(COMPILED, apps, strict=True)]
    versions = [files for pair in pairs for files in pair.versions()]
    found = [digests(tmp_path / place, versions, seed) for seed, place in (("1", "a"), ("77", "another/place"))]
    assert [o["digest"] for o in found[0]] == [o["digest"] for o in found[1]]
    outcomes = zip(pairs, found[0][::2], found[0][1::2], strict=True)
    assert not [(p.name, o["unknown"]) for p, o, n in outcomes if not o["digest"] or o["digest"] == n["digest"]]


def test_what_was_described_before_says_nothing(tmp_path: Path) -> None:
    """Describing a function imports what it imports when it runs."""
    files = {"app.py": MAIN, "helpers.py": LAZILY, "plug.py": PLUG}
    pairs = [Pair(name, "3", "4", {**files, "base.py": base}) for name, base in LAZY.items()]
    found = digests(tmp_path, [version for pair in pairs for version in pair.versions()], again="yes")
    assert all(outcome["digest"] and outcome["digest"] == outcome["again"] for outcome in found)
    outcomes = zip(pairs, found[::2], found[1::2], strict=True)
    assert not [pair.name for pair, old, new in outcomes if old["digest"] == new["digest"]]
