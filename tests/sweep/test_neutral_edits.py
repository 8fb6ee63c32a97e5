"""Neutral edits of modules that others wrote: an app is always itself, and edits told apart needlessly are counted.

It takes an hour and more: what importing a package does is followed for each edit.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.sweep.neutral_edits import ORDERS, edits, modules
from tests.sweep.python_apps import run

EQUAL, ASKED, APART = "equal", "asked once, in python.imports", "told apart"
_MOST = 0.5  # of the edits told apart; the goal is 0.1


def judged(folder: Path) -> dict[str, Counter[str]]:
    """Return by edit how many functions were equal, had their imports asked about, and were told apart."""
    (folder / "packages").mkdir()
    table: dict[str, Counter[str]] = {}
    known = 0
    for module in modules(folder / "packages"):
        for function in module.functions():
            asked = [("itself", {}), ("itself", {}), *edits(module)]
            places = (module.write(folder / module.name / str(n), function, f) for n, (_, f) in enumerate(asked))
            found = run([{"folder": str(p), "inputs": (), "results": False, "again": True} for p in places])
            shutil.rmtree(folder / module.name)
            if "fails" in found[0]:
                continue  # not what an app can import
            known += 1
            said: dict[str, list[str]] = {}
            for (edit, _), outcome in zip(asked, found, strict=True):
                if "fails" in outcome and edit in ORDERS:
                    continue  # one needs another
                where = f"{module.name}.{function}: {edit}"
                assert outcome.get("digest") and outcome["digest"] == outcome["again"], (where, outcome)
                alone = outcome["alone"] == found[0]["alone"]
                kind = EQUAL if outcome["digest"] == found[0]["digest"] else ASKED if alone else APART
                table.setdefault(edit, Counter())[kind] += 1
                said.setdefault(kind, []).append(edit)
            print(f"{known}. {module.name}.{function}: {said}", flush=True)
    for edit, counts in table.items():
        print(f"| {edit} | {counts[EQUAL]} | {counts[ASKED]} | {counts[APART]} |")
    return table


def _neutral(table: dict[str, Counter[str]]) -> None:
    assert table.pop("itself").keys() == {EQUAL}
    total = sum(table.values(), Counter())
    print(dict(total))
    assert total[APART] <= _MOST * total.total(), total


@pytest.mark.sweep
@pytest.mark.timeout(3 * 3600)
def test_neutral_edits_of_the_modules_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        _neutral(judged(tmp_path))
