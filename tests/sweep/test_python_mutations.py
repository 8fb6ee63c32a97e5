"""Every mutation of a Python function that changes its results must change its digest, and nothing else may.

The slice of `make test` takes some of the mutants; the whole is behind the marker ``sweep``.
"""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

from tests.cases import one_is_fast
from tests.sweep.python_apps import run, write
from tests.sweep.python_corpus import SAMPLES, Sample
from tests.sweep.python_mutants import mutants

SLICE = 61  # one place in so many; a prime, so that all kinds are met


def job(folder: Path, sample: Sample, files: dict[str, str] | None = None, results: bool = True) -> dict[str, Any]:
    write(folder, files or sample.files)
    return {"folder": str(folder), "inputs": sample.inputs, "results": results}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("originals")
    found = run([job(folder / str(i), sample) for i, sample in enumerate(SAMPLES)])
    for sample, outcome in zip(SAMPLES, found, strict=True):
        assert outcome.get("digest"), (sample.name, outcome)
    return found


def sweep(originals: list[dict[str, Any]], folder: Path, every: int) -> None:
    """The digests of mutants against their results."""
    jobs, asked = [], []
    for sample, original in zip(SAMPLES, originals, strict=True):
        for file, source in sample.files.items():
            found = {mutant: what for what, mutant in mutants(source, every, 7 * len(jobs))}
            for mutant, what in found.items():
                jobs.append(job(folder / str(len(jobs)), sample, {**sample.files, file: mutant}))
                asked.append((sample, file, what, original))
    counts: collections.Counter[str] = collections.Counter()
    missed = []
    for (sample, file, what, original), outcome in zip(asked, run(jobs), strict=True):
        if "fails" in outcome:
            counts["that no longer load"] += 1
            continue
        counts["other results" if outcome["results"] != original["results"] else "equal results"] += 1
        counts["without a digest"] += outcome["digest"] is None
        if outcome["digest"] == original["digest"] and outcome["results"] != original["results"]:
            missed.append((sample.name, file, what, original["results"], outcome["results"]))
    print(f"{len(SAMPLES)} functions, {len(jobs)} mutants, {dict(counts)}, missed: {len(missed)}")
    assert not missed, "\n".join(map(str, missed))
    assert counts["other results"] > len(jobs) / 4


def test_a_mutant_with_other_results_has_another_digest(originals, tmp_path: Path) -> None:
    sweep(originals, tmp_path, SLICE)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_each_mutant_with_other_results_has_another_digest(originals, tmp_path: Path) -> None:
    sweep(originals, tmp_path, 1)


@pytest.mark.parametrize(("hash_seed", "place"), one_is_fast([("12345", "elsewhere"), ("777", "a/deeper/place")]))
def test_equal_code_has_an_equal_digest(originals, tmp_path: Path, hash_seed: str, place: str) -> None:
    """In another process, with another hash seed, from another folder."""
    jobs = [job(tmp_path / place / str(i), sample, results=False) for i, sample in enumerate(SAMPLES)]
    again = run(jobs, hash_seed)
    other = [s.name for s, a, b in zip(SAMPLES, originals, again, strict=True) if a["digest"] != b["digest"]]
    assert not other
