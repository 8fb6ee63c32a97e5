"""A refusal names the line of a function that changed, and how many rows of state are lost."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.changed_code import find_changes
from airflow_provider_streamupdate.control.code_diff import Version
from airflow_provider_streamupdate.control.explanation import explain
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.plan.differences import changed_functions
from airflow_provider_streamupdate.core.plan.expressions import Column, Python
from airflow_provider_streamupdate.core.plan.plan import Deduplication, QueryPlan
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry

from .builders import app_plan, deploy, query_plan, set_status, stage_plan, status

HELPERS = '''"""Helpers."""

SIZE = 3  # letters


def shorter(k):
    return k[:SIZE]


# how to sort
def classify(k):
    if not k:
        return ""
    return k[:1] or shorter(k)


class Kind:
    def of(self, k):
        return classify(k)
'''


def versions(tmp_path: Path, old: str, new: str) -> tuple[Version, Version]:
    found = []
    for name, text in (("old", old), ("new", new)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "app.py").write_text("from helpers import classify\n")
        (folder / "helpers.py").write_text(text)
        files = {"file": str(folder / "app.py"), "py_files": (str(folder / "helpers.py"),)}
        found.append(Version(name, Application(**files)))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("was", "now", "function", "told"),
    [
        ("k[:1]", "k[:2]", "classify", "`classify` in helpers.py changed at line 14: `k[:1]` -> `k[:2]`"),
        ("SIZE = 3", "SIZE = 4", "classify",
         "`SIZE` in helpers.py, which `classify` uses, changed at line 3: `3` -> `4`"),
        ("k[:SIZE]", "k", "classify",
         "`shorter` in helpers.py, which `classify` uses, changed at line 7: `k[:SIZE]` -> `k`"),
        ('        return ""\n', '        # nothing\n\n        k = "x"\n        return ""\n', "classify",
         '`classify` in helpers.py changed at line 15: `k = "x"` is new'),
        ('    if not k:\n        return ""\n', "", "classify",
         "`classify` in helpers.py changed at line 12: `if not k:` is gone"),
        ("(self, k)", "(self, k, n=1)", "Kind.of",
         "`of` in helpers.py changed at line 18: `k):` -> `k, n=1):`"),
        ("return k[:SIZE]", 'return get(k, token="t0")', "classify",
         "`shorter` in helpers.py, which `classify` uses, changed at line 7"),
        ("return k[:SIZE]", 'return get("https://me:pw1@host/x")', "shorter",
         '`shorter` in helpers.py changed at line 7: `k[:SIZE]` -> `get("https://***@host/x")`'),
        ("# how to sort", "# how to sort them", "classify", None),
        ('"""Helpers."""', '"""Help."""', "classify", None),
        ("k[:1]", "k[:2]", "elsewhere", None),
    ],
)  # fmt: skip
def test_the_line_is_that_of_the_function_or_of_what_it_uses(
    tmp_path: Path, was: str, now: str, function: str, told: str | None
) -> None:
    assert was in HELPERS
    found = find_changes([function], *versions(tmp_path, HELPERS, HELPERS.replace(was, now)))
    assert [str(change) for change in found.values()] == ([told] if told else [])


def test_a_long_line_is_cut_and_a_secret_is_hidden(tmp_path: Path) -> None:
    new = HELPERS.replace("k[:1] or", "k[:2] or " + "k or " * 40)
    old, new_version = versions(tmp_path, HELPERS, new)
    [change] = find_changes(["classify"], old, new_version).values()
    assert len(str(change)) < 200 and change.after.endswith("...")
    secret = attrs.evolve(old, application=attrs.evolve(old.application, params={"password": "hunter22"}))
    (tmp_path / "new" / "helpers.py").write_text(HELPERS.replace("k[:1]", "'hunter22'"))
    [change] = find_changes(["classify"], secret, new_version).values()
    assert "hunter22" not in str(change)


def test_functions_whose_code_differs_are_named_once() -> None:
    k = Column("s", "k", "string")
    old = [Python("1", "f", (k,)), Python("2", "g", (Python("3", "h", (k,)),)), Python("", "unknown")]
    new = [
        Python("1", "f", (k,)),
        Python("2", "g", (Python("4", "h", (k,)),)),
        Python("", "unknown"),
        Python("5", "new"),
    ]
    assert changed_functions(old, new) == ["h"]


def keyed(digest: str) -> QueryPlan:
    key = Python(digest, "classify", (Column("source-1", "k", "string"),))
    return query_plan(stage_plan("kinds", kind="deduplicate", operator="dedupe", definition=Deduplication(keys=(key,))))


def deployed(registry: AppRegistry, old: Version) -> None:
    """Deploy the old version as v1, with 1,234 rows of state."""
    names = {"app.py": "application/app.py", "helpers.py": "application/helpers.py"}
    application = Application(file=names["app.py"], py_files=(names["helpers.py"],))
    deploy(registry, application=application)
    for name, place in names.items():
        text = Path(old.application.file).with_name(name).read_bytes()
        registry.deployment_folder("v1").write(place, text)
    query = QueryStatus(batch=3, active=True, state_rows={"kinds": 1234})
    set_status(registry, "v1", status(queries={"windows": query}))


def test_the_check_fills_in_what_only_files_and_drivers_know(app: AppRegistry, tmp_path: Path) -> None:
    old, new = versions(tmp_path, HELPERS, HELPERS.replace("k[:1]", "k[:2]"))
    deployed(app, old)
    report = compare(app_plan(keyed("1")), app_plan(keyed("2")), "deployment v1")
    [problem] = report.problems
    assert "keys changed: the code of classify changed" in problem
    found: CompatibilityReport = explain(app, report, new.application, None, None)
    [item] = [item for item in found.items if item.blocks]
    assert item.reason == "keys changed: `classify` in helpers.py changed at line 14: `k[:1]` -> `k[:2]`"
    assert [(c.file, c.line) for c in item.code] == [("helpers.py", 14)] and item.rows == 1234
    assert item.next_steps[0] == "put it back: make line 14 of helpers.py `k[:1]` again"
    assert item.next_steps[-1].endswith("; its 1,234 rows of state are lost")
    gone = compare(app_plan(keyed("1")), app_plan(query_plan()), "deployment v1")
    [item] = [item for item in explain(app, gone, new.application, None, None).items if item.name == "windows/kinds"]
    assert item.next_steps[-1] == "lose it: agree to it with --agree windows/kinds; its 1,234 rows of state are lost"
    renamed = attrs.evolve(
        report, items=tuple(attrs.evolve(i, name=i.name.replace("kinds", "k2")) for i in report.items)
    )
    for key in ("kinds", "windows/kinds"):
        assert [i.rows for i in explain(app, renamed, new.application, None, {key: "k2"}).items if i.blocks] == [1234]
    app.folder.remove("deployments/v1/spec.json")
    assert explain(app, report, new.application, None, None).problems  # what cannot be read is left out
