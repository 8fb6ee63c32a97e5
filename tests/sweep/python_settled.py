"""The driver has something else than workers, which import the app's modules afresh from the path: what they have
changes with ``@@``, unseen by values. And modules without source."""

from __future__ import annotations

from tests.sweep.python_pairs import MAIN, Pair

DRIVERS: list[Pair] = []
FLAG = "import flags\nflags.ON = True\nfrom helpers import f\n"
CHOSEN = "@@ if not flags.ON else 7"


def driver(name: str, helpers: str, app: str, **more: str) -> None:
    modules = {f"{path.replace('__', '/')}.py": text for path, text in more.items()}
    DRIVERS.append(Pair(name, "3", "4", {"app.py": app, "helpers.py": helpers, "flags.py": "ON = False\n", **modules}))


def sets(name: str, helpers: str, statement: str) -> None:
    driver(f"the driver {name}", helpers, f"import helpers\n{statement}\nfrom helpers import f\n")


ENUM = "import enum, flags\nclass E(enum.Enum):\n    A = {}\n    B = 1\ndef f(x): return E.A.value\n"
driver("an enum's value", ENUM.format(CHOSEN), FLAG)
driver("an enum's value of a constant", f"import flags\nN = {CHOSEN}\n" + ENUM.format("N"), FLAG)
sets("sets an enum's value", ENUM.format("@@"), "helpers.E.A._value_ = 5")
CACHE = "import functools, flags, os\n{}def g(x): return x\ndef f(x): return g.cache_info().maxsize\n"
driver("a decorator's argument", CACHE.format(f"@functools.lru_cache(maxsize={CHOSEN})\n"), FLAG)
driver("a decorator's constant", CACHE.format(f"N = {CHOSEN}\n@functools.lru_cache(maxsize=N)\n"), FLAG)
driver("a decorator's call", CACHE.format(f"def n(): return {CHOSEN}\n@functools.lru_cache(maxsize=n())\n"), FLAG)
driver("a decorator's environment", CACHE.format("@functools.lru_cache(int(os.environ.get('SWEEP_N', @@)))\n"),
       "import os\nos.environ['SWEEP_N'] = '7'\nfrom helpers import f\n")  # fmt: skip
WRAPS = """
import functools, flags
def times(n):
    def decorate(g):
        @functools.wraps(g)
        def wrapper(x): return n
        return wrapper
    return decorate
"""
driver("a decorator of the function itself", f"{WRAPS}@times({CHOSEN})\ndef f(x): return x\n", FLAG)
driver("a decorator of a method", f"{WRAPS}class C:\n    @times({CHOSEN})\n    def m(self): pass\n"
       "def f(x): return C().m()\n", FLAG)  # fmt: skip
driver("a class's keyword", "import flags\nclass B:\n    def __init_subclass__(cls, n): cls.n = n\n"
       f"class C(B, n={CHOSEN}): pass\ndef f(x): return C.n\n", FLAG)  # fmt: skip
SHOW = "import functools\n@functools.singledispatch\ndef g(x): return 0\n{}\ndef f(x): return g(x)\n"
sets("registers another function", SHOW.format("@g.register\ndef _(x: int): return @@"),
     "helpers.g.register(int, lambda x: 5)")  # fmt: skip
sets("registers one for a type", SHOW.format("@g.register(int)\ndef h(x): return @@"),
     "helpers.g.register(int, lambda x: 5)")  # fmt: skip
DELETED = "class B:\n    n = 1\n    def m(self): return 1\nclass C(B):\n    {}\ndef f(x): return C.n, C().m()\n"
sets("deletes an attribute", DELETED.format("n = @@"), "del helpers.C.n")
sets("deletes a hinted attribute", DELETED.format("n: int = @@"), "del helpers.C.n")
sets("deletes a method", DELETED.format("def m(self): return @@"), "del helpers.C.m")
sets("deletes a function", "def len(x): return @@\ndef f(x): return len(x)\n", "from helpers import f\ndel helpers.len")
driver("another module in its place", "def g(): return @@\ndef f(x):\n    import helpers\n    return helpers.g()\n",
       "import helpers, sys, types\nfrom helpers import f\nsys.modules['helpers'] = types.ModuleType('helpers')\n"
       "vars(sys.modules['helpers']).update(f=f, g=lambda: 5)\n")  # fmt: skip
driver("another file of its name", "import sys\ndef f(x):\n    import plug\n    return plug.N\n",
       "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'drv'))\nimport plug\n"
       "sys.path.pop(0)\nfrom helpers import f\n", plug="N = @@\n", drv__plug="N = 5\n")  # fmt: skip
DRIVERS.append(Pair("a module that is there or not", "3", "4", {
    "app.py": MAIN, "extra@@.py": "",
    "helpers.py": "import importlib.util as u\ndef f(x): return u.find_spec('extra3') is None\n"}))  # fmt: skip

# What is written so has the worker as well: renaming a local variable is nothing.
ALONE = WRAPS.replace(", flags", "")
SETTLED = {
    "an enum": "import enum\nclass E(enum.Enum):\n    A = 1\n    B = enum.auto()\n    def m(self):\n        @@ = 1\n"
    "        return @@\ndef f(x): return E.A.m()\n",
    "an enum of texts": "import enum\nclass E(str, enum.Enum):\n    A = 'a'\n    C = 'a'\n    def m(self):\n"
    "        @@ = 1\n        return @@\ndef f(x): return E.A.m()\n",
    "flags": "import enum\nclass E(enum.Flag):\n    A = enum.auto()\n    B = 4\n    def m(self):\n        @@ = 1\n"
    "        return @@\ndef f(x): return E.A.m()\n",
    "a decorator with a constant": f"{ALONE}N = 3\n@times(N)\ndef f(x):\n    @@ = 1\n    return @@\n".replace(
        "return n", "return g(x)"),
    "a decorator with a type": "import pyspark.sql.types as T\nfrom pyspark.sql.functions import udf\n"
    "@udf(returnType=T.LongType())\ndef g(x):\n    @@ = 1\n    return @@\ndef f(x): return g.func(x)\n",
    "a decorator with a function": f"{ALONE}def h(x): return x\n@times(h)\ndef f(x):\n    @@ = 1\n    return @@\n",
    "a dataclass": "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass C:\n    a: int = 1\n"
    "    b: list = dataclasses.field(default_factory=list)\n    c: int = dataclasses.field(init=False)\n"
    "    def m(self):\n        @@ = 1\n        return @@\ndef f(x): return C().m()\n",
    "a private name": "class C:\n    __n = 1\n    def m(self):\n        @@ = 1\n        return @@\n"
    "def f(x): return C().m()\n",
    "a single dispatch": SHOW.format("@g.register(int)\n@g.register(str)\ndef _(x):\n    @@ = 1\n    return @@"),
}  # fmt: skip

# The module `compiled` has its code alone; `inner` is imported by it.
COMPILED = {
    "a constant": "N = @@\ndef f(x): return N\n",
    "an effect": "import decimal\ndecimal.getcontext().prec = @@\ndef f(x): return decimal.Decimal(1) / 7\n",
    "a seed": "import random\nrandom.seed(@@)\ndef f(x): return random.random()\n",
    "what it imports": "import decimal, inner\ndef f(x): return decimal.Decimal(1) / 7\n",
    "what its class imports": "import decimal\nclass C:\n    from inner import g\n"
    "def f(x): return decimal.Decimal(1) / 7\n",
}
COMPILES = """
import os, py_compile
HERE = os.path.dirname(os.path.abspath(__file__))
py_compile.compile(os.path.join(HERE, 'compiled.txt'), cfile=os.path.join(HERE, 'compiled.pyc'))
from compiled import f
"""
INNER = "import decimal\ndecimal.getcontext().prec = @@\ndef g(): pass\n"

# Describing them imports `plug`, which changes what `base` has.
LAZY = {
    "a set": "HELD = set()\ndef add(g):\n    HELD.add(g)\n    return g\n",
    "a dict": "HELD = {}\ndef add(g):\n    HELD[g.__name__] = g\n    return g\n",
    "a constant": "HELD = @@\ndef add(g):\n    global HELD\n    HELD = 7\n    return g\n",
}
LAZILY = "import base\ndef f(x):\n    held = base.HELD\n    import plug\n    return held, base.HELD\n"
PLUG = "import base\n@base.add\ndef g(): return @@\n"
