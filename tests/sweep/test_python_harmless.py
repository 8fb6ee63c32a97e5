"""Edits that change no result leave the digest as it is; those that do not are counted, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.python_apps import run, write
from tests.sweep.python_corpus import SAMPLES

BY_NAME = {sample.name: sample for sample in SAMPLES}

# fmt: off
# The one that is told apart, needlessly: Python deletes what an error is caught as.
CAUGHT = ("exceptions", "app.py", "except Bad as e:\n        return str(e), e.code, e.more",
          "except Bad as bad:\n        return str(bad), bad.code, bad.more")
# sample, file, what stands there, what stands there afterwards; "" for the beginning of the file
EDITS = [
    # comments, blank lines, docstrings, layout
    ("arithmetic", "app.py", '"Doc."', '"""Another text,\n    of two lines."""'),
    ("arithmetic", "app.py", "    y -= 2", "    y -= 2  # less"),
    ("arithmetic", "app.py", "def f(x):", "\n\n\n# moved down\ndef f(x):"),
    ("arithmetic", "app.py", "y = x * 3 + 7", "y = (x * 3\n         + 7)"),
    ("branches and loops", "app.py", "            continue\n", "            # the next one\n\n            continue\n"),
    ("class with inheritance", "app.py", "class Middle(Base):", 'class Middle(Base):\n    "In the middle."\n'),
    ("dataclass of another module", "shapes.py", "class Shape:", 'class Shape:\n    "A shape."'),
    ("enum", "app.py", "class Color(enum.Enum):", 'class Color(enum.Enum):\n    "Colours."'),
    ("imported helper", "helpers.py", "def double(x):", '"""Helpers."""\n\n\ndef double(x):\n    "Twice."'),
    # local variables
    ("arithmetic", "app.py", "y", "result"),
    ("closure", "app.py", "factor", "zz_factor"),
    ("nonlocal counter", "app.py", "seen", "already"),
    ("lazy dotted import", "app.py", "rates as rates\n    return pkg.deep.scale(x) + rates.",
     "rates as r\n    return pkg.deep.scale(x) + r."),
    ("generators and comprehensions", "app.py", "got = yield", "given = yield"),
    ("with and context managers", "app.py", "as n, Quiet() as q:\n        log.append(n + q",
     "as a, Quiet() as b:\n        log.append(a + b"),
    CAUGHT,
    # unrelated definitions
    ("closure", "app.py", "", "unrelated = lambda x: x + 1\n"),
    ("globals", "app.py", "", "import json, os.path\nUNRELATED = 5\n"),
    ("imported helper", "helpers.py", "", "import json\nfrom collections import deque\nMORE = {1: 2}\n"),
    ("relative import inside", "pkg/rates.py", "", "UNRELATED = 3\n"),
    ("registry filled by decorators", "rules.py", "", "UNRELATED = 3\n"),
    # type hints
    ("arithmetic", "app.py", "def f(x):", "def f(x: int) -> int:"),
    ("keyword defaults of a helper", "app.py", "def scaled(x, *, by=3, offset=1):",
     "def scaled(x: float, *, by: int = 3, offset: int = 1) -> float:"),
    ("closure", "app.py", "    def inner(x):", "    def inner(x: 'int') -> list[int]:"),
    ("imported helper", "helpers.py", "def shift(x):", "def shift(x: int) -> int:"),
    ("class with inheritance", "app.py", "def add(self, x):\n        return x",
     "def add(self, x: int) -> int:\n        return x"),
    ("arithmetic", "app.py", "y = x * 3", "y: int = x * 3"),
    ("abc, Protocol, Generic", "app.py", "def area(self) -> int: ...", "def area(self) -> float: ..."),
    # names of global variables, of imports, other ways to write the same constant
    ("globals", "app.py", "RATES", "_RATES"),
    ("globals", "app.py", "LIMIT = 4", "LIMIT = 2 * 2"),
    ("sets", "app.py", '{"a", "e", "i"}', '{"i", "a", "e"}'),
    ("sets", "app.py", '{"l", "o"}', '{"o", "l"}'),
    ("sets", "app.py", '[1, "a", (2, "b"), None]', '[None, (2, "b"), 1, "a"]'),
]
# fmt: on


def test_what_changes_no_result_changes_no_digest(tmp_path: Path) -> None:
    jobs = []
    for number, (name, file, old, new) in enumerate(EDITS):
        sample = BY_NAME[name]
        source = sample.files[file]
        assert old in source, (name, old)
        changed = source.replace(old, new) if old else new + source
        for kind, files in (("before", sample.files), ("after", {**sample.files, file: changed})):
            folder = write(tmp_path / str(number) / kind, files)
            jobs.append({"folder": str(folder), "inputs": sample.inputs})
    outcomes = run(jobs)
    assert all("fails" not in outcome for outcome in outcomes), outcomes
    pairs = list(zip(EDITS, outcomes[::2], outcomes[1::2], strict=True))
    assert all(before["results"] == after["results"] for _, before, after in pairs)
    different = [edit for edit, before, after in pairs if before["digest"] != after["digest"]]
    print(f"{len(EDITS)} harmless edits, falsely different: {len(different)}")
    assert set(different) <= {CAUGHT}, "\n".join(map(str, different))


# What pickle does not take, and code that takes what it runs by names that are data: ``@@`` is the one or the other.
BY_TEXT = {
    "a view of memory": "view = memoryview(b'a@@')\ndef g(x):\n    return view[x]",
    "a generator": "rows = (i + @@ for i in range(9))\ndef g(x):\n    return next(rows)",
    "a file": "source = open(__file__)  # @@\nlast = @@\ndef g(x):\n    return source.read(), last",
    "a socket": "import socket\nline = socket.socket()\nline.settimeout(@@)\ndef g(x):\n    return line",
    "a weak reference": "import weakref\nclass A: n = @@\na = A()\nr = weakref.ref(a)\ndef g(x):\n    return r().n",
    "in an attribute": "class A: pass\nkept = A()\nkept.inner = {'k': [memoryview(b'a@@')]}\n"
    "def g(x):\n    return kept.inner['k'][0][1]",
    "a computed import": "import importlib\ndef g(x):\n    return importlib.import_module('hel' + x).N\nN = @@",
    "what is not there": "def g(x):\n    import not_there_at_all\n    return @@",
    "what cannot be imported": "def g(x):\n    import broken\n    return @@",
    "code from a place": "import runpy\nN = @@\ndef g(x):\n    return runpy.run_path(x)",
    "subclasses": "class A: pass\nclass B(A): n = @@\ndef g(x):\n    return A.__subclasses__()[0].n",
    "a thread": "import threading\nF = []\nT = threading.Thread(target=F.append, args=(@@,))\nT.start()\nT.join()\n"
    "def g(x):\n    return F[0]",
}


def test_what_cannot_be_followed_counts_by_its_text(tmp_path: Path) -> None:
    """Its code is never unknown."""
    jobs = []
    for number, source in enumerate(BY_TEXT.values()):
        for place, text in (("one", "3"), ("again", "3"), ("other", "4")):
            helpers = source.replace("@@", text) + "\n"
            files = {"app.py": "from helpers import g\ndef f(x):\n    return g(x)\n", "helpers.py": helpers}
            folder = write(tmp_path / str(number) / place, {**files, "broken.py": "1 / 0\n"})
            jobs.append({"folder": str(folder), "inputs": (), "results": False})
    found = [outcome["digest"] for outcome in run(jobs)]
    assert None not in found
    assert not [name for name, one, again in zip(BY_TEXT, found[::3], found[1::3], strict=True) if one != again]
    assert not [name for name, one, other in zip(BY_TEXT, found[::3], found[2::3], strict=True) if one == other]


def test_a_package_counts_by_its_version(tmp_path: Path) -> None:
    source = "import somelib\ndef f(x):\n    return somelib.double(x)\n"
    jobs = []
    for version in ("1.0", "2.0"):
        site = tmp_path / version / "site"
        write(site, {"somelib/__init__.py": "def double(x):\n    return 2 * x\n"})
        write(site, {f"some_lib-{version}.dist-info/METADATA": f"Name: some-lib\nVersion: {version}\n"})
        write(site, {f"some_lib-{version}.dist-info/top_level.txt": "somelib\n"})
        folder = write(tmp_path / version / "app", {"app.py": source})
        jobs.append({"folder": str(folder), "inputs": ("1",), "site": str(site)})
    old, new = run(jobs)
    assert "some-lib 1.0" in old["packages"]
    assert "some-lib 2.0" in new["packages"]
    assert old["digest"] != new["digest"]


@pytest.mark.parametrize("name", ["numpy", "pandas"])
def test_what_is_installed_here(tmp_path: Path, name: str) -> None:
    sample = BY_NAME[name]
    [outcome] = run([{"folder": str(write(tmp_path, sample.files)), "inputs": sample.inputs}])
    assert any(package.startswith(f"{name} ") for package in outcome["packages"]), outcome
