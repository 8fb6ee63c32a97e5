"""Which statements run nothing of the app's (streaming/code/on_import/harmless): what a look that failed leaves."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

from airflow_provider_streamupdate.streaming.code.on_import.harmless.statements import is_plain, names_of

HELPER = """
class Proxy:
    __class__ = property(lambda self: {}[0])  # raises, as a lazy proxy does that is not bound

P = Proxy()
"""
APP = "from looked_at_helper import P\nA = [P]\nclass C:\n    B = [P for _ in [P]]\nB = P + 1\n".replace(
    "P + 1", "[P][0]"
)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "looked_at_helper.py").write_text(HELPER)
    (tmp_path / "looked_at_app.py").write_text(APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("looked_at_helper", "looked_at_app"):
        importlib.import_module(name)
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
    return "looked_at_app"


def test_a_look_that_fails_leaves_all_as_it_was(app: str) -> None:
    statements = ast.parse(APP).body
    alone = []
    for statement in statements:
        names = names_of(app)
        assert names is not None
        alone.append(is_plain(statement, names))
    names = names_of(app)
    assert names is not None
    assert [is_plain(s, names) for s in statements] == alone
    assert names.program.open == [] and names.scope.innermost is None
