"""What importing a module does: statements of an app's module that do more than to give values to names.

An effect sets what any code of the process reads afterwards (decimal's precision, to ``@@``), in ways that no call in
the statement shows: operators, properties, metaclasses, functions that are handed on, modules that are imported. There
is one for each way through the judge of statements (streaming/code/statements.py) and from there (imports.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.sweep.python_pairs import MAIN, Pair

EFFECTS: list[Pair] = []
AFTER = "\ndef f(x):\n    return decimal.Decimal(1) / 7\n"
SET = "decimal.getcontext().prec = @@"
PLUGIN = f"import decimal\n{SET}\nthing = 1\n"
NO_FILES: Mapping[str, str] = {}


def module(name: str, source: str, files: Mapping[str, str] = NO_FILES, old: str = "3", new: str = "4") -> None:
    EFFECTS.append(Pair(f"on import: {name}", old, new, {"app.py": MAIN, "helpers.py": f"{source}\n", **files}))


def effect(source: str, files: Mapping[str, str] = NO_FILES) -> None:
    """Statements, one a line; ``SET`` in them sets the precision."""
    module(" ".join(source.split()), f"import decimal\n{source.replace('SET', SET)}{AFTER}", files)


# fmt: off
# A special method of a class F that sets the precision, what it gives, and statements that have it called.
for method, gives, statement in (
    ("__or__", "self", "X = F() | 1"),
    ("__class_getitem__", "self", "X = F[1]"),
    ("__iter__", "iter((1, 2))", "for _ in F(): pass"),
    ("__iter__", "iter((1, 2))", "A, B = F()"),
    ("__iter__", "iter((1, 2))", "Y = max(1, 2, *F())"),
    ("__iter__", "iter('a')", "Y = ','.join(F())"),
    ("__format__", "''", "X = f'{F():3}'"),
    ("__bool__", "True", "if F(): pass"),
    ("__neg__", "1", "L = []\nL.append(F())\nY = -L[0]\nL.clear()"),
    ("__neg__", "1", "class B:\n    def __init_subclass__(cls, n=0): pass\nclass C(B, n=-F()): pass"),
    ("__neg__", "1", "def g(v=-F()): pass"),
    ("__neg__", "int", "import typing\nclass T(typing.TypedDict):\n    a: -F()"),
    ("__hash__", "1", "T = {F(): 1}"),
    ("__getattr__", "1", "X = F()\nY = X.n"),
    ("__lt__", "True", "Y = sorted([F(), F()])"),
    ("__get__", "1", "class C:\n    a = F()\nX = C.a"),
    ("__set_name__", "None", "class C:\n    a = F()"),
    ("__mro_entries__", "()", "class C(F()): pass"),
    ("__init_subclass__", "None", "class C(F): pass"),
    ("__init_subclass__", "None", "X = type('C', (F,), {})"),
    ("get", "None", "X = F().get()"),
    ("get", "None", "class C(F):\n    def get(self): super().get()\nX = C().get()"),
    ("open", "open(__file__)", "with F().open() as h: pass"),
):
    effect(f"class F:\n    def {method}(self, *a, **k):\n        SET\n        return {gives}\n{statement}")
effect("import attrs\nclass F:\n    @classmethod\n    def __attrs_init_subclass__(cls):\n        SET\n"
       "@attrs.define\nclass C(F):\n    n: int = 1")
effect("import typing\nT = typing.TypeVar('T')\nclass G(typing.Generic[T]):\n    def __class_getitem__(cls, k):\n"
       "        SET\n        return cls\nclass H(G[int]): pass")
for method, gives, statement in (("__init__", "None", ""), ("__or__", "cls", "def g(v: F | None): pass")):
    effect(f"class M(type):\n    def {method}(cls, *a, **k):\n        SET\n        return {gives}\n"
           f"class F(metaclass=M): pass\n{statement}")  # of a metaclass
for statement in ("X = F().n", "try: Y = int('a')\nexcept (F().n, ValueError): Y = 1"):
    effect(f"class F:\n    @property\n    def n(self):\n        SET\n        return KeyError\n{statement}")
for statement in ("Y = dict(**F())", "Y = {**F()}"):
    effect("class F:\n    def keys(self):\n        SET\n        return []\n    def __getitem__(self, k): return 1\n"
           f"{statement}")

# Members of an enum's class, which set the precision when it is made or used.
for members, statement in (
    ("    A = 1\n    def __init__(self, n):\n        SET", ""),
    ("    A = 1\n    @property\n    def n(self):\n        SET", "X = E.A.n"),
    ("    A = 1\n    @property\n    def n(self):\n        SET", "X = [e.n for e in E]"),
):
    effect(f"import enum\nclass E(enum.Enum):\n{members}\n{statement}")
effect("import enum\nclass S(str):\n    def __new__(cls, v):\n        SET\n        return str.__new__(cls, v)\n"
       "class E(S, enum.Enum):\n    A = 'a'")
effect("import enum\nclass M(enum.EnumMeta):\n    def __call__(cls, *a):\n        SET\n"
       "        return super().__call__(*a)\nclass E(enum.Enum, metaclass=M):\n    A = 1\nX = E(1)")

# A function g that sets the precision and gives its last argument, or 1, and statements that have it called.
for statement in (
    "def setup():\n    def inner(): g()\n    return inner\nX = setup()()",
    "X = list(map(g, [1]))", "X = sorted([1], key=g)", "h = g\nX = h()", "T = {'a': g}\nX = T['a']()",
    "import collections\nX = collections.defaultdict(g)['a']",
    "import numpy as np\nX = np.vectorize(g)([1])",
    "import contextlib\nwith contextlib.suppress(ValueError): X = g()",
    "class C:\n    @classmethod\n    def make(cls): return g()\nX = C.make()",
    "def deco(h):\n    g()\n    return h\n@deco\ndef h(): pass",
    "import functools\ndef deco(h):\n    g()\n    return h\n@functools.wraps(len)\n@deco\ndef h(): pass",
    "class deco:\n    def __init__(self, n): self.n = n\n    def __call__(self, h):\n        g()\n        return h\n"
    "@deco(1)\ndef h(): pass",
    "class A:\n    def route(self, n):\n        def w(h):\n            g()\n            return h\n        return w\n"
    "APP = A()\n@APP.route(1)\ndef h(): pass",
    "def go(c):\n    c.setup()\n    return c\n@go\nclass C:\n    @classmethod\n    def setup(cls): g()",
    "import functools\n@functools.singledispatch\ndef h(n): pass\n@h.register\ndef _(n: int): g()\nX = h(1)",
    "class p(property):\n    def __set_name__(s, o, n): g()\nclass C:\n    @p\n    def a(self): pass",
    "X: g() = 1", "def h(a: g()): pass", "class C:\n    a: g()",
    "from pyspark.sql.types import StructField, LongType\nclass N(str):\n    def __eq__(s, o): return bool(g())\n"
    "    __hash__ = str.__hash__\nX = StructField(N('a'), LongType())\nY = X.name == 1",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = dataclasses.field(default_factory=g)\nX = C()",
    "import typing\nclass T(typing.NamedTuple):\n    a: int = g()",
    "import attrs\n@attrs.define\nclass C:\n    n: int = attrs.field(default=1)\n    @n.validator\n"
    "    def _v(self, a, v): g()\nX = C()",
    "import attrs\n@attrs.define(field_transformer=lambda c, fs: g(fs))\nclass C:\n    n: int = 1",
):
    effect(f"def g(*a):\n    SET\n    return a[-1] if a else 1\n{statement}")

# Constants and names that are gone, or other ones, afterwards.
for source in (
    "L = lambda n: setattr(decimal.getcontext(), 'prec', n)\nX = L(@@)",
    "X = list(map(lambda n: decimal.getcontext().__setattr__('prec', n), [@@]))",
    "def setup(n): decimal.getcontext().prec = n\nX = setup(@@)\ndef setup(n): pass",
    "def _setup():\n    SET\n_setup()\ndel _setup",
    "PREC = @@\ndecimal.getcontext().prec = PREC\nPREC = 7",
    "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    SET",
):
    effect(source)

# A module `plugin` that sets it, and ways to have it imported.
for source in (
    "def load():\n    import plugin\n    return 1\nX = load()",
    "class C:\n    class E:\n        if True:\n            import plugin",
    "import importlib\nclass L:\n    def get(self):\n        importlib.import_module('plugin')\n        return 1\n"
    "X = L().get()",
    "match 1:\n    case 1:\n        import plugin",
    "try:\n    import nothing_there\nexcept ImportError:\n    import plugin",
    "__import__('plugin')", "g = lambda x=__import__('plugin'): x", "from plugin import *",
    "import lazy\nX = lazy.thing", "from lazy import thing", "import chain",
    "from pkg import *", "import pkg.star", "import pkg.b",
):
    effect(source, {"plugin.py": PLUGIN, "chain.py": "import chained\n", "chained.py": "import plugin\n",
        "lazy.py": "def __getattr__(n):\n    if n != 'thing':\n        raise AttributeError(n)\n    import plugin\n"
        "    return plugin.thing\n",
        "pkg/__init__.py": "__all__ = ['fx']\n", "pkg/fx.py": PLUGIN, "pkg/star.py": "from .fx import *\n",
        "pkg/b.py": "class L:\n    def get(self):\n        from . import fx\n        return 1\nX = L().get()\n"})
effect("class L:\n    def get(self):\n        import pkg.a\n        return 1\nX = L().get()",
       {"pkg/__init__.py": PLUGIN, "pkg/a.py": ""})

# A function of another module, which calls a method of a class there.
DEEP = f"import decimal\ndef setup():\n    C().run()\n    return 1\nclass C:\n    def run(self):\n        {SET}\n"
for source in (
    "import other\nX = other.setup()", "from third import *\nX = setup()", "import pkg.deep\nX = pkg.deep.setup()",
    "import other\ndef go(m): return m.setup()\nX = go(other)",
    "class L:\n    def get(self):\n        from other import setup\n        return setup()\nX = L().get()",
    "from other import C\nclass D(C):\n    def __init__(self): self.run()\nX = D()",
):
    effect(source, {"other.py": DEEP, "third.py": "from other import *\n", "pkg/deep.py": DEEP, "pkg/__init__.py": ""})
for source in ("import conf\ndecimal.getcontext().prec = conf.N\ndel conf",
               "from conf import N\ndecimal.getcontext().prec = N\ndel N"):
    effect(source, {"conf.py": "N = @@\n"})

# The order of effects.
OTHERS = {f"e{n}.py": f"import decimal\ndecimal.getcontext().prec = {n}\nz = 1\n" for n in (3, 5)}
FIVE = "decimal.getcontext().prec=5"
for old, new in (("import e3,e5", "import e5,e3"), (f"{FIVE[:-1]}3\n{FIVE}", f"{FIVE}\n{FIVE[:-1]}3"),
                 (f"import e3\n{FIVE}", f"{FIVE}\nimport e3")):
    module(f"the order of {old}", f"import decimal\n@@{AFTER}", OTHERS, old, new)
module("the order of imports in a function",
       "import decimal\ndef f(x):\n    @@\n    return decimal.Decimal(1) / 7", OTHERS, "import e3,e5", "import e5,e3")

# What else a process has: objects of packages that are changed, in place or under another name.
DEFAULT = "def f(x):\n    decimal.setcontext(decimal.DefaultContext)\n    return decimal.Decimal(1) / 7"
for name, source in {
    "an import in what the function calls": "import decimal\ndef g():\n    import plugin\ndef f(x):\n    g()\n"
    "    return decimal.Decimal(1) / 7",
    "a class body": f"import decimal\nclass C:\n    ctx = decimal.DefaultContext\n    ctx.prec = @@\n{DEFAULT}",
    "a thread": "import decimal, threading\nclass C(threading.Thread):\n    def run(self):\n"
    "        decimal.DefaultContext.prec = @@\ndef go():\n    c = C()\n    c.start()\n    c.join()\n    return 1\n"
    f"X = go()\n{DEFAULT}",
    "the environment by an operator": "import os\nE = os.environ\nE |= {'SETTING_Z': '@@'}\n"
    "def f(x): return os.environ['SETTING_Z']",
    "a registry of pandas": "import pandas.tseries.holiday as h\nclass Mine(h.AbstractHolidayCalendar):\n"
    "    rules = [h.Holiday('a', month=@@, day=1)]\n"
    "def f(x): return [str(d) for d in h.get_calendar('Mine').holidays('2026-01-01', '2026-12-31')]",
    "a global statement": "N = 0\ndef g():\n    global N\n    N = @@\ng()\ndef f(x): return N",
    "a nonlocal one": "def mk():\n    n = 1\n    def s():\n        nonlocal n\n        n = @@\n    s()\n"
    "    return lambda x: n\nf_ = mk()\ndef f(x): return f_(x)",
}.items():
    module(name, source, {"plugin.py": PLUGIN})
module("a named tuple's order",
       "import typing\nclass T(typing.NamedTuple):\n    @@\ndef f(x): return tuple(T(a=1, b=2))", {},
       "a:int; b:int", "b:int; a:int")

# The module `compiled` has its code alone; `inner` is imported by it.
COMPILED = {
    "a constant": "N = @@\ndef f(x): return N\n",
    "an effect": "import decimal\ndecimal.getcontext().prec = @@\ndef f(x): return decimal.Decimal(1) / 7\n",
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
COMPILED_PAIRS = [
    Pair(f"without source: {name}", "3", "4", {"app.py": COMPILES, "compiled.txt": source, "inner.py": INNER})
    for name, source in COMPILED.items()
]

# Describing them imports `plug`, which changes what `base` has.
LAZILY = "import base\ndef f(x):\n    held = base.HELD\n    import plug\n    return held, base.HELD\n"
PLUG = "import base\n@base.add\ndef g(): return @@\n"
LAZY_PAIRS = [
    Pair(f"lazily: {name}", "3", "4", {"app.py": MAIN, "helpers.py": LAZILY, "plug.py": PLUG, "base.py": base})
    for name, base in {
        "a set": "HELD = set()\ndef add(g):\n    HELD.add(g)\n    return g\n",
        "a dict": "HELD = {}\ndef add(g):\n    HELD[g.__name__] = g\n    return g\n",
        "a constant": "HELD = @@\ndef add(g):\n    global HELD\n    HELD = 7\n    return g\n",
    }.items()
]
# fmt: on
