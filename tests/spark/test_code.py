"""The digest of a Python function: equal for equal code, in another process, too; another one for any change in it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyspark import cloudpickle

from airflow_provider_streamupdate.streaming.code import describe
from tests.cases import one_is_fast

HELPERS = """
LIMIT = 3

def double(x):
    return 2 * x

def unused(x):
    return x
"""

APP = """
import helpers
from helpers import double
import functools, re

SEEN = {"b": 2, "a": 1}
PATTERN = re.compile("a+")

class Base:
    step = 1
    def add(self, x):
        return x + self.step

class Count(Base):
    def __init__(self, start):
        self.start = start
    def __call__(self, key, rows):
        "Counts."
        def inner(r):
            return double(r) + helpers.LIMIT
        return self.add(self.start) + sum(inner(r) for r in rows) + SEEN["a"] + bool(PATTERN.match(key))

made = Count(7)

def count(key, rows):
    return made(key, rows)
"""

PRINT = """
from pyspark import cloudpickle
from airflow_provider_streamupdate.streaming.code import describe
print(describe(cloudpickle.dumps((count, None))).digest)
"""
PRINT_UNKNOWN = PRINT.replace("print(", "print('; '.join(").replace(".digest)", ".unknown))")


def digest(folder: Path, app: str = APP, helpers: str = HELPERS, hash_seed: str = "0") -> str:
    """The digest of `count` in a process of its own, where the app is ``__main__`` and its helpers another file."""
    said = _said(folder, app + PRINT, helpers, hash_seed)
    assert said != "None"
    return said


def _said(folder: Path, app: str, helpers: str, hash_seed: str = "0") -> str:
    folder.mkdir(exist_ok=True)
    (folder / "helpers.py").write_text(textwrap.dedent(helpers))
    (folder / "app.py").write_text(textwrap.dedent(app))
    path = os.pathsep.join([str(folder), os.getcwd()])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(folder / "app.py")]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def first(tmp_path_factory) -> str:
    return digest(tmp_path_factory.mktemp("code"))


def test_equal_code_has_an_equal_digest_in_another_process_and_folder(first: str, tmp_path: Path) -> None:
    assert digest(tmp_path / "elsewhere", hash_seed="12345") == first


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("app", '"Counts."', '"Says something else."'),
        ("app", "def count(key, rows):", "\n\n# moved down\ndef count(key, rows):"),
        ("helpers", "return x\n", "return x + 1  # nobody uses it\n"),
    ],
)
def test_what_computes_the_same_is_no_change(first: str, tmp_path: Path, where: str, old: str, new: str) -> None:
    assert digest(tmp_path, **_changed(where, old, new)) == first


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("app", "Count(7)", "Count(8)"),
        ("app", "step = 1", "step = 2"),
        ("app", "x + self.step", "x - self.step"),
        ("app", '{"b": 2, "a": 1}', '{"b": 2, "a": 3}'),
        ("app", '{"b": 2, "a": 1}', '{"a": 1, "b": 2}'),
        ("app", 'compile("a+")', 'compile("b+")'),
        ("app", "double(r) + helpers.LIMIT", "double(r) - helpers.LIMIT"),
        ("helpers", "2 * x", "3 * x"),
        ("helpers", "LIMIT = 3", "LIMIT = 4"),
    ],
)
def test_what_may_compute_something_else_is_a_change(
    first: str, tmp_path: Path, where: str, old: str, new: str
) -> None:
    assert digest(tmp_path, **_changed(where, old, new)) != first


@pytest.mark.parametrize(
    "set_in_the_driver", one_is_fast(["helpers.LIMIT = 4", "helpers.FACTOR = 3", "helpers.LIMIT = 3.0"])
)
def test_a_constant_that_workers_do_not_have_cannot_be_compared(tmp_path: Path, set_in_the_driver: str) -> None:
    """Workers import the module again: what they have is what is written there."""
    helpers = HELPERS.replace("return 2 * x", "return FACTOR * x").replace("LIMIT = 3", "LIMIT = 3\nFACTOR: int = 2")
    assert "FACTOR * x" in helpers
    said = _said(tmp_path, APP + set_in_the_driver + "\n" + PRINT_UNKNOWN, helpers)
    name = set_in_the_driver.split(" ")[0].split(".")[1]
    assert name in said and "the driver has set it to" in said
    assert _said(tmp_path, APP + PRINT_UNKNOWN, helpers) == ""


@pytest.mark.parametrize("body", one_is_fast(["sys.modules['helpers'].LIMIT", "loaded['helpers'].LIMIT"]))
def test_a_module_that_is_taken_from_a_table_cannot_be_compared(tmp_path: Path, body: str) -> None:
    app = f"import sys, helpers\nfrom sys import modules as loaded\ndef count(key, rows):\n    return {body}\n"
    said = _said(tmp_path, app + PRINT_UNKNOWN, HELPERS)
    assert "cannot be compared" in said, said
    own = "import sys, helpers\nME = sys.modules[__name__]\ndef count(key, rows):\n    return helpers.LIMIT\n"
    assert _said(tmp_path, own + PRINT_UNKNOWN, HELPERS) == ""


def _changed(where: str, old: str, new: str) -> dict[str, str]:
    text = {"app": APP, "helpers": HELPERS}[where]
    assert old in text
    return {where: text.replace(old, new)}


def test_the_subclasses_of_a_class_cannot_be_compared(tmp_path: Path) -> None:
    app = "class Base: pass\nclass One(Base): pass\ndef count(key, rows):\n    return len(Base.__subclasses__())\n"
    said = _said(tmp_path, app + PRINT_UNKNOWN, HELPERS)
    assert "__subclasses__, which cannot be compared" in said, said


@pytest.mark.parametrize(
    ("app", "helpers", "one", "other"),
    [
        ("import abc\nclass A(abc.ABC): pass\nclass B: pass\n@@\ndef count(k, r): return isinstance(B(), A)\n", "",
         "", "A.register(B)"),
        ("import helpers\ndef count(k, r): return list(vars(helpers.C))\n", "class C:\n    @@\n",
         "a = 1; b = 2", "b = 2; a = 1"),
        ("import operator\ndef @@(x): return x\nG=@@\nN=operator.attrgetter('__name__')\n"
         "def count(k, r): return N(G)\n", "", "aa", "bb"),
        ("def @@(x): return x\nG=@@\nA='__na'\ndef count(k, r): return getattr(G, A + 'me__')\n", "", "aa", "bb"),
    ],
)  # fmt: skip
def test_what_code_can_look_at_counts(tmp_path: Path, app: str, helpers: str, one: str, other: str) -> None:
    first, again, changed = (
        digest(tmp_path / name, app=app.replace("@@", text), helpers=helpers.replace("@@", text))
        for name, text in (("1", one), ("2", one), ("3", other))
    )
    assert first == again != changed


def test_what_a_module_fills_when_it_is_imported_is_what_workers_have(tmp_path: Path) -> None:
    """Plug-ins: what the module's own statements put into its list, workers have as well. What the app puts into it
    they have not."""
    helpers = """
        HANDLERS, NAMED = [], {}

        def registered(function):
            HANDLERS.append(function)
            NAMED[function.__name__] = function
            return function

        @registered
        def one(x):
            return x + 1
    """
    app = "import helpers\ndef count(key, rows):\n    return [f(1) for f in helpers.HANDLERS], helpers.NAMED\n"
    first = digest(tmp_path / "1", app, helpers)
    assert digest(tmp_path / "2", app, helpers) == first
    assert digest(tmp_path / "3", app, helpers.replace("x + 1", "x + 2")) != first
    assert _said(tmp_path / "4", app + PRINT_UNKNOWN, helpers) == ""
    for set_in_the_driver in ("helpers.HANDLERS.append(len)", "helpers.NAMED['x'] = len"):
        assert digest(tmp_path / "5", app + set_in_the_driver + "\n", helpers) != first
    assert digest(tmp_path / "6", app, helpers + "\n        OTHER = 3\n") != first  # it may fill it, too


@pytest.mark.parametrize("here", one_is_fast(["Path(__file__).parent", "os.path.dirname(os.path.abspath(__file__))"]))
def test_where_the_app_lies_is_nothing(tmp_path: Path, here: str) -> None:
    """Each deployment has a folder of its own."""
    app = f"import os\nfrom pathlib import Path\nHERE = {here}\ndef count(k, r): return open(f'{{HERE}}/table.txt')\n"
    assert digest(tmp_path / "1", app) == digest(tmp_path / "2", app)
    assert digest(tmp_path / "1", app) != digest(tmp_path / "2", app.replace("HERE = ", "HERE = Path('/x') if 1 else "))


def test_what_cannot_be_loaded_has_no_digest() -> None:
    assert describe(b"not a pickle").digest is None
    lost = cloudpickle.dumps((_Lost(), None)).replace(b"_Lost", b"_Gone")
    assert describe(lost).digest is None


class _Lost:
    pass


def test_a_module_that_starts_a_thread_cannot_be_compared(tmp_path: Path) -> None:
    """A thread is known by numbers of its process: without a word, an app was another one than itself."""
    helpers = (
        "import threading\nFOUND = []\nT = threading.Thread(target=FOUND.append, args=(3,))\nT.start()\nT.join()\n"
        "def step():\n    return FOUND[0]\n"
    )
    app = "import helpers\ndef count(x):\n    return helpers.step()\n"
    assert _said(tmp_path, app + PRINT, helpers) == "None"
