"""What importing a module does: statements of an app's module that do more than to give values to names.

An effect sets what any code of the process reads afterwards (decimal's precision, to ``@@``), in ways that no call in
the statement shows: operators, properties, metaclasses, functions that are handed on, modules that are imported.
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
    ("__rshift__", "self", "X = F() >> 1"),
    ("__getitem__", "self", "X = F()[1]"),
    ("__class_getitem__", "self", "X = F[1]"),
    ("__iter__", "iter((1, 2))", "for _ in F(): pass"),
    ("__iter__", "iter((1, 2))", "A, B = F()"),
    ("__iter__", "iter((1, 2))", "Y = max(1, 2, *F())"),
    ("__iter__", "iter((1, 2))", "Y = [*F()]"),
    ("__iter__", "iter('a')", "Y = ','.join(F())"),
    ("__format__", "''", "X = f'{F():3}'"),
    ("__format__", "''", "Y = '{}'.format(F())"),
    ("__str__", "''", "X = f'{F()}'"),
    ("__str__", "''", "X = str(F())"),
    ("__str__", "''", "Y = '%s' % F()"),
    ("__repr__", "''", "Y = repr([F()])"),
    ("__bool__", "True", "if F(): pass"),
    ("__bool__", "True", "assert F()"),
    ("__bool__", "False", "X = F()\nwhile X: pass"),
    ("__bool__", "False", "Y = F() and 1"),
    ("__eq__", "True", "X = F() == 1"),
    ("__eq__", "False", "match F():\n    case 1: pass"),
    ("__eq__", "True", "import types\nX = types.SimpleNamespace(h=F()) == types.SimpleNamespace(h=F())"),
    ("__contains__", "True", "X = 1 in F()"),
    ("__iadd__", "self", "X = F()\nX += 1"),
    ("__neg__", "1", "L = [F()]\nY = -L[0]"),
    ("__neg__", "1", "L = []\nL.append(F())\nY = -L[0]\nL.clear()"),
    ("__neg__", "1", "X = F()\nY = -X\nX = 5"),
    ("__neg__", "1", "X = 1\ndef go():\n    global X\n    X = F()\n    return 1\n_ = go()\nY = -X"),
    ("__neg__", "1", "X = F()\nclass B:\n    def __init_subclass__(cls, n=0): pass\nclass C(B, n=-X): pass"),
    ("__neg__", "1", "X = F()\ndef deco(g):\n    def w(n=-X): return g()\n    return w\n@deco\ndef h(): pass"),
    ("__neg__", "1", "X = F()\ndef deco(g):\n    def w(n: -X): return g()\n    return w\n@deco\ndef h(): pass"),
    ("__neg__", "int", "import typing\nX = F()\nclass T(typing.TypedDict):\n    a: -X"),
    ("__or__", "self", "X = F()\ndef g(v: X | 1): pass"),
    ("__getitem__", "self", "X = F()\nY: X[1] = 1"),
    ("__call__", "self", "G = F()\nX = G()"),
    ("__hash__", "1", "X = F()\nT = {X: 1}"),
    ("__hash__", "1", "X = F()\nT = {X}"),
    ("__hash__", "1", "X = F()\nT = frozenset([X])"),
    ("__getattribute__", "1", "X = F()\nY = X.n"),
    ("__getattr__", "1", "X = F()\nY = X.n"),
    ("__getattr__", "1", "X = getattr(F(), 'z')"),
    ("__setattr__", "None", "def go():\n    c = F()\n    c.n = 1\n    return c\nX = go()"),
    ("__delitem__", "None", "X = F()\ndel X[0]"),
    ("__index__", "1", "Y = [1, 2, 3][F():]"),
    ("__lt__", "True", "Y = sorted([F(), F()])"),
    ("__lt__", "True", "A, B = F(), F()\nY = min(A, B)"),
    ("__gt__", "False", "X = F()\nY = 1 < X < 3"),
    ("__len__", "1", "Y = len(F())"),
    ("__int__", "1", "Y = int(F())"),
    ("__copy__", "self", "import copy\nY = copy.copy(F())"),
    ("__add__", "1", "import operator\nX = operator.add(F(), 1)"),
    ("__add__", "1", "import numpy as np\nX = np.array([F()], dtype=object) + 1"),
    ("__del__", "None", "X = F()\nX = None"),
    ("__get__", "1", "class C:\n    a = F()\nX = C.a"),
    ("__set_name__", "None", "class C:\n    a = F()"),
    ("__mro_entries__", "()", "class C(F()): pass"),
    ("__init_subclass__", "None", "class C(F): pass"),
    ("__init_subclass__", "None", "X = type('C', (F,), {})"),
    ("__init_subclass__", "None", "import dataclasses\nX = dataclasses.make_dataclass('X', [], bases=(F,))"),
    ("__attrs_init_subclass__", "None", "import attrs\nF.__attrs_init_subclass__ = classmethod("
     "F.__attrs_init_subclass__)\n@attrs.define\nclass C(F):\n    n: int = 1"),
    ("__post_init__", "None", "import dataclasses\n@dataclasses.dataclass\nclass C(F):\n    n: int = 1\nX = C(2)"),
    ("get", "None", "X = F().get()"),
    ("get", "None", "def go():\n    c = F()\n    c.get()\n    return c\nX = go()"),
    ("get", "None", "import functools\nh = functools.partial(F().get)\nX = h()"),
    ("get", "None", "import operator\nX = operator.methodcaller('get')(F())"),
    ("get", "None", "class C(F):\n    def __init__(self): self.get()\nX = C()"),
    ("get", "None", "class C(F):\n    def get(self): super().get()\nX = C().get()"),
    ("close", "None", "import contextlib\nwith contextlib.closing(F()): pass"),
    ("open", "open(__file__)", "with F().open() as h: pass"),
    ("__init__", "None", "import threading\nclass Z(threading.local, F): pass\nY = Z()"),
):
    effect(f"class F:\n    def {method}(self, *a, **k):\n        SET\n        return {gives}\n{statement}")

# The same of a metaclass M, whose class F is.
for method, gives, statement in (
    ("__init__", "None", ""),
    ("__call__", "1", "X = F()"),
    ("__or__", "cls", "def g(v: F | None): pass"),
    ("__getattr__", "1", "Y = F.n"),
    ("__instancecheck__", "True", "Y = isinstance(1, F)"),
    ("__prepare__", "{}", ""),
):
    noted = "    @classmethod\n" if method == "__prepare__" else ""
    effect(f"class M(type):\n{noted}    def {method}(cls, *a, **k):\n        SET\n        return {gives}\n"
           f"class F(metaclass=M): pass\n{statement}")

# A property of F.
for statement in (
    "X = F().n",
    "X = F()\ndef g(v=X.n): pass",
    "import operator\nX = operator.attrgetter('n')(F())",
    "X = F()\ntry: Y = int('a')\nexcept (X.n, ValueError): Y = 1",
):
    effect(f"class F:\n    @property\n    def n(self):\n        SET\n        return KeyError\n{statement}")
effect("import functools\nclass F:\n    @functools.cached_property\n    def n(self):\n        SET\nX = F().n")

# Keys of a mapping F.
for statement in ("Y = dict(**F())", "Y = dict(F())", "Y = {**F()}"):
    effect("class F:\n    def keys(self):\n        SET\n        return []\n    def __getitem__(self, k): return 1\n"
           f"{statement}")

# Contexts.
for statement in ("with F() as y: pass", "import contextlib\nwith contextlib.ExitStack() as st: st.enter_context(F())"):
    effect("class F:\n    def __enter__(self):\n        SET\n    def __exit__(self, *a): pass\n" + statement)

# Members of an enum's class, which set the precision when it is made or used.
for members, statement in (
    ("    A = 1\n    def __init__(self, n):\n        SET", ""),
    ("    A = 1\n    @classmethod\n    def _missing_(cls, n):\n        SET\n        return cls.A", "X = E(2)"),
    ("    def _generate_next_value_(n, s, c, l):\n        SET\n        return 1\n    A = enum.auto()", ""),
    ("    A = 1\n    def __hash__(self):\n        SET\n        return 1", "T = {E.A: 1}"),
    ("    A = 1\n    @property\n    def n(self):\n        SET", "X = E.A.n"),
    ("    A = 1\n    @property\n    def value(self):\n        SET", "X = E.A.value"),
    ("    A = 1\n    @property\n    def n(self):\n        SET", "X = [e.n for e in E]"),
    ("    def __init__(s, *a):\n        SET", "X = E('G', 'A C')"),
):
    effect(f"import enum\nclass E(enum.Enum):\n{members}\n{statement}")
effect("import enum\nclass S(str):\n    def __new__(cls, v):\n        SET\n        return str.__new__(cls, v)\n"
       "class E(S, enum.Enum):\n    A = 'a'")
effect("import enum\nclass M(enum.EnumMeta):\n    def __call__(cls, *a):\n        SET\n"
       "        return super().__call__(*a)\nclass E(enum.Enum, metaclass=M):\n    A = 1\nX = E(1)")

# Classes of dataclasses, attrs and named tuples.
for source in (
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int\n    def __post_init__(self):\n        SET\n"
    "X = C(1)",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = dataclasses.field(default_factory=g)\nX = C()",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n    n: int = 1\n    def __setattr__(s, k, v):\n        SET\n"
    "X = C(2)",
    "import dataclasses\nclass D:\n    def __get__(s, i, o): return 1\n    def __set__(s, i, v):\n        SET\n"
    "@dataclasses.dataclass\nclass C:\n    n: int = D()\nX = C(2)",
    "import dataclasses\nC = dataclasses.make_dataclass('C', ['n'], namespace={'__post_init__': g})\nX = C(1)",
    "import typing\nclass T(typing.NamedTuple):\n    a: int\nclass U(T):\n    def __new__(cls, a):\n        SET\n"
    "        return super().__new__(cls, a)\nX = U(1)",
    "import typing\nclass T(typing.NamedTuple):\n    a: int = g()",
    "import collections\nclass T(collections.namedtuple('T', 'a')):\n    @classmethod\n    def _make(cls, i):\n"
    "        SET\n        return super()._make(i)\nX = T(1)._replace(a=2)",
    *(f"import attrs\n@attrs.define\nclass C:\n    n: int = attrs.field({field}=g)\nX = C(1)"
      for field in ("validator", "converter")),
    *(f"import attrs\n@attrs.define\nclass C:\n    n: int = 1\n    def __attrs_{when}_init__(self):\n        SET\n"
      "X = C(2)" for when in ("pre", "post")),
    "import attrs\n@attrs.define(on_setattr=g)\nclass C:\n    n: int = 1\ndef go():\n    c = C()\n    c.n = 2\n"
    "    return c\nX = go()",
    "import attrs\n@attrs.define\nclass C:\n    n: int = attrs.field(default=1)\n    @n.validator\n"
    "    def _v(self, a, v):\n        SET\nX = C()",
    "import attrs\n@attrs.define\nclass C:\n    n: int = attrs.field()\n    @n.default\n    def _v(self):\n"
    "        SET\n        return 1\nX = C()",
    "import attrs\ndef t(c, fs):\n    SET\n    return fs\n@attrs.define(field_transformer=t)\nclass C:\n    n: int = 1",
):
    effect(f"def g(*a):\n    SET\n    return a[-1] if a else 1\n{source}")

# A function g that sets the precision and gives 1, and statements that call it or have it called.
for statement in (
    "def setup():\n    g()\n    return 1\nX = setup()",
    "def setup():\n    def inner(): g()\n    inner()\n    return 1\nX = setup()",
    "def setup():\n    def inner(): g()\n    return inner\nX = setup()()",
    "import functools\nG = functools.partial(g, 1)\nX = G()",
    "X = list(map(g, [1]))", "X = sorted([1], key=g)", "X = max([1], key=g)", "X = tuple(filter(g, [1]))",
    "Y = any(filter(g, [1]))", "X = any((g(i) for i in [1]))", "X = list(iter(g, 1))",
    "import functools\nX = functools.reduce(g, [1, 2])",
    "import itertools\nX = list(itertools.accumulate([1, 2], g))",
    "import itertools\nX = dict(itertools.groupby([1, 2], key=g))",
    "import collections\nX = collections.defaultdict(g)['a']",
    "X = {}.get('a', g(1))", "T = {'a': g}\nX = T['a']()", "T = [g]\nh = T[0]\nX = h()", "h = g\nX = h()",
    "class N: pass\nn = N()\nn.h = g\nX = n.h()", "import types\nn = types.SimpleNamespace(h=g)\nX = n.h()",
    "import json\nX = json.dumps(object(), default=g)", "import json\nX = json.loads('{}', object_hook=g)",
    "import re\nX = re.sub('a', lambda m: str(g()), 'a')",
    "import re\nPT = re.compile('a')\nX = PT.sub(lambda m: str(g()), 'a')",
    "import numpy as np\nX = np.vectorize(g)([1])", "import numpy as np\nX = np.fromfunction(g, (2,))",
    "import numpy as np\nX = np.apply_along_axis(g, 0, np.array([1]))",
    "import pandas as pd\nX = pd.Series([1]).apply(g)", "import pandas as pd\nS = pd.Series([1])\nX = S.map(g)",
    "import pandas as pd\nX = pd.Series.map(pd.Series([1]), g)",
    "import pandas as pd\nX = pd.DataFrame({'a': [1]}).pipe(g)",
    "Y = [(z := g()) for _ in range(1)]", "Y = [1 for _ in range(1) if g()]",
    "import contextlib\nwith contextlib.suppress(ValueError): X = g()",
    "def deco(h):\n    def w(): return h()\n    w()\n    return w\n@deco\ndef h(): g()",
    "import functools\ndef deco(h):\n    g()\n    return h\n@functools.wraps(len)\n@deco\ndef h(): pass",
    "class deco:\n    def __init__(self, n): self.n = n\n    def __call__(self, h):\n        g()\n        return h\n"
    "@deco(1)\ndef h(): pass",
    "class A:\n    def route(self, n):\n        def w(h):\n            g()\n            return h\n        return w\n"
    "APP = A()\n@APP.route(1)\ndef h(): pass",
    "class W:\n    def __init__(self, h): g()\ndef deco(n):\n    def w(h): return W(h)\n    return w\n@deco(1)\n"
    "def h(): pass",
    "def deco(n): return lambda h: (g(), h)[1]\n@deco(1)\ndef h(): pass",
    "def deco(n):\n    if n:\n        def w(h):\n            g()\n            return h\n        return w\n@deco(1)\n"
    "def h(): pass",
    "def go(c):\n    c.setup()\n    return c\n@go\nclass C:\n    @classmethod\n    def setup(cls): g()",
    "class C:\n    @classmethod\n    def make(cls): return g()\nX = C.make()",
    "class C:\n    @staticmethod\n    def make(): return g()\nX = C.make()",
    "class C:\n    def __init__(self): self.apply()\n    def apply(self): g()\nX = C()",
    "class B:\n    def __init__(self): g()\nclass C(B):\n    def __init__(self): super().__init__()\nX = C()",
    "RULES = {}\ndef rule(n):\n    def w(h):\n        RULES[n] = h\n        return h\n    return w\n@rule('a')\n"
    "def a(): g()\nX = RULES.get('a')()",
    "import functools\n@functools.cache\ndef h(n): g()\nX = h(1)",
    "import functools\n@functools.singledispatch\ndef h(n): pass\n@h.register\ndef _(n: int): g()\nX = h(1)",
    "import contextlib\n@contextlib.contextmanager\ndef h():\n    g()\n    yield\nwith h(): pass",
    "def h():\n    g()\n    yield 1\nX = [y for y in h()]",
    "def h():\n    g()\n    yield 1\nG = h()\nY = list(G)\nG = None",
    "import types\nX = types.new_class('X', (), {}, lambda ns: g() and None)",
    "X: g() = 1", "def h(a: g()): pass", "class C:\n    a: g()", "def h() -> g(): pass",
    "class C(object if g() else object): pass",
    "class T(dict):\n    def __missing__(self, k): return g()\nY = T()['a']",
    "import abc\nclass B(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, o): return bool(g())\n"
    "X = issubclass(int, B)",
    "import typing\nT = typing.TypeVar('T')\nclass G(typing.Generic[T]):\n    def __class_getitem__(cls, k):\n"
    "        g()\n        return cls\nclass H(G[int]): pass",
    "class p(property):\n    def __set_name__(s, o, n): g()\nclass C:\n    @p\n    def a(self): pass",
    "import functools\nclass F:\n    @property\n    def __doc__(s): return str(g())\nX = F()\ndef w(): pass\n"
    "G = functools.wraps(X)(w)",
    "from pyspark.sql.types import StructField, LongType\nclass N(str):\n    def __eq__(s, o): return bool(g())\n"
    "    __hash__ = str.__hash__\nX = StructField(N('a'), LongType())\nY = X.name == 1",
    "import sys\nsys.path.append('/x' if g() else '/y')",
):
    effect(f"def g(*a):\n    SET\n    return 1\n{statement}")

# Constants and names that are gone, or other ones, afterwards.
for source in (
    "X = (lambda: setattr(decimal.getcontext(), 'prec', @@))()",
    "L = lambda n: setattr(decimal.getcontext(), 'prec', n)\nX = L(@@)",
    "X = list(map(lambda n: decimal.getcontext().__setattr__('prec', n), [@@]))",
    "class H: pass\nH = decimal.getcontext\nX = H().__setattr__('prec', @@)",
    "def setup():\n    m = decimal\n    m.setcontext(m.Context(prec=@@))\n    return 1\nX = setup()",
    "def setup(n): decimal.getcontext().prec = n\nX = setup(@@)\ndef setup(n): pass",
    "def _setup():\n    SET\n_setup()\ndel _setup",
    "PREC = @@\ndecimal.getcontext().prec = PREC\ndel PREC",
    "PREC = @@\ndecimal.getcontext().prec = PREC\nPREC = 7",
    "class _S:\n    n = @@\ndecimal.getcontext().prec = _S.n\ndel _S",
    "for i in (@@,): pass\ndecimal.getcontext().prec = i\ni = 7",
    "TYPE_CHECKING = True\nif TYPE_CHECKING:\n    SET",
):
    effect(source)

# A module `plugin` that sets it, and ways to have it imported.
for source in (
    "def load():\n    import plugin\n    return 1\nX = load()",
    "class C:\n    import plugin", "if True:\n    class C:\n        import plugin",
    "class C:\n    class E:\n        if True:\n            import plugin",
    "import importlib\nclass L:\n    def get(self):\n        importlib.import_module('plugin')\n        return 1\n"
    "X = L().get()",
    "class L:\n    def get(self):\n        __import__('plugin')\n        return 1\nX = L().get()",
    "match 1:\n    case 1:\n        import plugin", "try: pass\nfinally:\n    import plugin",
    "try:\n    import nothing_there\nexcept ImportError:\n    import plugin",
    "import importlib\nimportlib.import_module('plugin')", "__import__('plugin')",
    "g = lambda x=__import__('plugin'): x",
    "from plugin import *", "import plugin as q",
    "import lazy\nX = lazy.thing", "from lazy import thing",
    "class L:\n    def get(self):\n        import chain\n        return 1\nX = L().get()", "import chain",
    "import pkg.fx as q", "from pkg import *", "import pkg.star", "import pkg.b",
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
    "import other\nX = other.setup()", "from other import setup as s\nX = s()", "from other import *\nX = setup()",
    "from third import *\nX = setup()", "import pkg\nX = pkg.setup()", "import pkg.deep\nX = pkg.deep.setup()",
    "import other\ndef go(m): return m.setup()\nX = go(other)",
    "class L:\n    def get(self):\n        from other import setup\n        return setup()\nX = L().get()",
    "from other import C\nclass D(C):\n    def __init__(self): self.run()\nX = D()",
):
    effect(source, {"other.py": DEEP, "third.py": "from other import *\n", "pkg/deep.py": DEEP,
                    "pkg/__init__.py": "from .deep import setup\n"})
effect("import conf\ndecimal.getcontext().prec = conf.N\ndel conf", {"conf.py": "N = @@\n"})
effect("from conf import N\ndecimal.getcontext().prec = N\ndel N", {"conf.py": "N = @@\n"})

# The order of effects.
OTHERS = {f"e{n}.py": f"import decimal\ndecimal.getcontext().prec = {n}\nz = 1\n" for n in (3, 5)}
FIVE = "decimal.getcontext().prec=5"
for old, new in (
    ("import e3,e5", "import e5,e3"), (f"{FIVE[:-1]}3\n{FIVE}", f"{FIVE}\n{FIVE[:-1]}3"),
    (f"import e3\n{FIVE}", f"{FIVE}\nimport e3"), (f"from e3 import z\n{FIVE}", f"{FIVE}\nfrom e3 import z"),
):
    module(f"the order of {old}", f"import decimal\n@@{AFTER}", OTHERS, old, new)
module("the order of imports in a function",
       "import decimal\ndef f(x):\n    @@\n    return decimal.Decimal(1) / 7", OTHERS, "import e3,e5", "import e5,e3")

# What else a process has: objects of packages that are changed, in place or under another name.
DEFAULT = "def f(x):\n    decimal.setcontext(decimal.DefaultContext)\n    return decimal.Decimal(1) / 7"
for name, source in {
    "an import in what the function calls": "import decimal\ndef g():\n    import plugin\ndef f(x):\n    g()\n"
    "    return decimal.Decimal(1) / 7",
    "a parameter": "import json\ndef patch(m):\n    m.JSONEncoder.item_separator = '@@'\n    return m\n"
    "J = patch(json)\ndef f(x): return json.JSONEncoder().encode([1, 2])",
    "a local variable": "import decimal\ndef setup():\n    ctx = decimal.DefaultContext\n    ctx.prec = @@\n"
    f"    return ctx\nX = setup()\n{DEFAULT}",
    "a class body": f"import decimal\nclass C:\n    ctx = decimal.DefaultContext\n    ctx.prec = @@\n{DEFAULT}",
    "a walrus": f"import decimal\nif (c := decimal.DefaultContext):\n    c.prec = @@\n{DEFAULT}",
    "a thread": "import decimal, threading\nclass C(threading.Thread):\n    def run(self):\n"
    "        decimal.DefaultContext.prec = @@\ndef go():\n    c = C()\n    c.start()\n    c.join()\n    return 1\n"
    f"X = go()\n{DEFAULT}",
    "a thread's target": "import decimal, threading\ndef g():\n    decimal.DefaultContext.prec = @@\ndef go():\n"
    f"    c = threading.Thread(target=g)\n    c.start()\n    c.join()\n    return 1\nX = go()\n{DEFAULT}",
    "the environment": "import os\ndef go(e):\n    e['SETTING_Z'] = '@@'\n    return e\nE = go(os.environ)\n"
    "def f(x): return os.environ['SETTING_Z']",
    "the environment by an operator": "import os\nE = os.environ\nE |= {'SETTING_Z': '@@'}\n"
    "def f(x): return os.environ['SETTING_Z']",
    "a registry of pandas": "import pandas.tseries.holiday as h\nclass Mine(h.AbstractHolidayCalendar):\n"
    "    rules = [h.Holiday('a', month=@@, day=1)]\n"
    "def f(x): return [str(d) for d in h.get_calendar('Mine').holidays('2026-01-01', '2026-12-31')]",
    "numpy's random state": "import numpy as np\ndef go(r):\n    r.seed(@@)\n    return 1\nX = go(np.random)\n"
    "def f(x): return float(np.random.rand())",
    "an option of pandas": "import pandas as pd\ndef go(o):\n    o.precision = @@\n    return o\n"
    "X = go(pd.options.display)\ndef f(x): return str(pd.Series([1.23456789]))",
    "a named tuple's default": "import typing\nclass T(typing.NamedTuple):\n    a: int = @@\n    b: int = 2\n"
    "def f(x): return T(b=1)",
    "a named tuple's value": "import collections\nT = collections.namedtuple('T', 'a b')\nV = T(1, @@)\n"
    "def f(x): return (V.a, V.b)",
    "a named tuple's method": "import typing\nclass T(typing.NamedTuple):\n    a: int\n"
    "    def total(self): return self.a * @@\ndef f(x): return T(1).total()",
    "a global statement": "N = 0\ndef g():\n    global N\n    N = @@\ng()\ndef f(x): return N",
    "a nonlocal one": "def mk():\n    n = 1\n    def s():\n        nonlocal n\n        n = @@\n    s()\n"
    "    return lambda x: n\nf_ = mk()\ndef f(x): return f_(x)",
}.items():
    module(name, source, {"plugin.py": PLUGIN})
module("a named tuple's order",
       "import typing\nclass T(typing.NamedTuple):\n    @@\ndef f(x): return tuple(T(a=1, b=2))", {},
       "a:int; b:int", "b:int; a:int")
# fmt: on
