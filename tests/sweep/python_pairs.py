"""Pairs of apps whose results differ, and whose digests must: what differs stands for ``@@``.

Here belongs what the mutants (python_mutants.py) do not reach: what only a worker has, which imports the app's modules
afresh, and ways round the names that a function's instructions hold. And apps whose digests are equal.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class Pair:
    name: str
    old: str
    new: str
    files: dict[str, str]

    def versions(self) -> list[dict[str, str]]:
        return [
            {path.replace("@@", by): text.replace("@@", by) for path, text in self.files.items()}
            for by in (self.old, self.new)
        ]


PAIRS: list[Pair] = []
MAIN = "from helpers import f\n"
FLAG = "import flags\nflags.ON = True\nfrom helpers import f\n"
FLAGS = {"flags.py": "ON = False\n"}  # a worker's


def pair(name: str, helpers: str, app: str = MAIN, old: str = "3", new: str = "4", **more: str) -> None:
    PAIRS.append(Pair(name, old, new, {"app.py": app, "helpers.py": helpers, **FLAGS, **more}))


def pairs(of: str, sources: Mapping[str, str], app: str = MAIN, **more: str) -> None:
    for name, source in sources.items():
        pair(f"{of}: {name}", f"{source}\n", app, **more)


# fmt: off
# The app's own file sets something of the module, which only the driver has.
READS = "def f(x): return N\n"
ENUM = "import enum\nclass E(enum.Enum):\n    A = @@\n    B = 1\ndef f(x): return E.A.value\n"
SHOW = "import functools\n@functools.singledispatch\ndef g(x): return 0\n{}\ndef f(x): return g(x)\n"
for name, helpers, sets in (
    ("a global by a function", "N = @@\ndef set(n):\n    global N\n    N = n\n" + READS, "helpers.set(5)"),
    ("one of two", "N, M = @@, 1\n" + READS, "helpers.N = 5"),
    ("what is assigned in an if", "if True:\n    N = @@\n" + READS, "setattr(helpers, 'N', 5)"),
    ("a function", "def g(x): return @@\ndef f(x): return g(x)\n", "helpers.g = lambda x: 5"),
    ("a method", "class C:\n    def m(self): return @@\ndef f(x): return C().m()\n", "helpers.C.m = lambda s: 5"),
    ("a default", "def g(n=@@): return n\ndef f(x): return g()\n", "helpers.g.__defaults__ = (5,)"),
    ("an item", "T = dict(a=@@)\ndef f(x): return T['a']\n", "helpers.T['a'] = 5"),
    ("an enum's value", ENUM, "helpers.E.A._value_ = 5"),
    ("another function for a type", SHOW.format("@g.register\ndef _(x: int): return @@"),
     "helpers.g.register(int, lambda x: 5)"),
    ("an attribute that is gone", "class B:\n    n = 1\nclass C(B):\n    n = @@\ndef f(x): return C.n\n",
     "del helpers.C.n"),
    ("a function that is gone", "def len(x): return @@\ndef f(x): return len(x)\n",
     "from helpers import f\ndel helpers.len"),
):
    pair(f"the driver sets {name}", helpers, f"import helpers\n{sets}\nfrom helpers import f\n")

# What the driver takes from a flag that it has set, and workers have not.
CHOSEN = "@@ if not flags.ON else 7"
WRAPS = """
import functools, flags
def times(n):
    def decorate(g):
        @functools.wraps(g)
        def wrapper(x): return n
        return wrapper
    return decorate
"""
pairs("a worker has another", {
    "value of an enum": f"import flags\nN = {CHOSEN}\n{ENUM.replace('@@', 'N')}",
    "argument of a decorator": f"import functools, flags, os\ndef n(): return {CHOSEN}\n"
    "@functools.lru_cache(maxsize=n())\ndef g(x): return x\ndef f(x): return g.cache_info().maxsize",
    "decorator of the function itself": f"{WRAPS}@times({CHOSEN})\ndef f(x): return x",
    "decorator of a method": f"{WRAPS}class C:\n    @times({CHOSEN})\n    def m(self): pass\ndef f(x): return C().m()",
    "keyword of a class": "import flags\nclass B:\n    def __init_subclass__(cls, n): cls.n = n\n"
    f"class C(B, n={CHOSEN}): pass\ndef f(x): return C.n",
}, FLAG)
for name, branch in {
    "a function": "if flags.ON:\n    def g(x): return 7\nelse:\n    def g(x): return @@\n",
    "an import": "if flags.ON:\n    from one import g\nelse:\n    from two import g\n",
}.items():
    pair(f"a branch that the driver does not take: {name}", f"import flags\n{branch}def f(x): return g(x)\n", FLAG,
         **{"one.py": "def g(x): return 7\n", "two.py": "def g(x): return @@\n"})
pair("another module in its place", "def g(): return @@\ndef f(x):\n    import helpers\n    return helpers.g()\n",
     "import helpers, sys, types\nfrom helpers import f\nsys.modules['helpers'] = types.ModuleType('helpers')\n"
     "vars(sys.modules['helpers']).update(f=f, g=lambda: 5)\n")
pair("another file of its name", "import sys\ndef f(x):\n    import plug\n    return plug.N\n",
     "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'drv'))\nimport plug\n"
     "sys.path.pop(0)\nfrom helpers import f\n", **{"plug.py": "N = @@\n", "drv/plug.py": "N = 5\n"})
pair("a module that is there or not",
     "import importlib.util as u\ndef f(x): return u.find_spec('extra3') is None\n", **{"extra@@.py": ""})

pairs("globals by name", {name: f"N = @@\nM = 7\n{read}" for name, read in {
    "sys.modules": "import sys\ndef f(x): return getattr(sys.modules[__name__], x)",
    "a frame": "import sys\ndef f(x): return sys._getframe().f_globals[x]",
    "a frame of inspect": "import inspect\ndef f(x): return inspect.currentframe().f_globals[x]",
    "__globals__": "def f(x): return f.__globals__[x]",
    "builtins": "import builtins\ndef f(x): return builtins.eval(x + '')",
    "a query": "def f(x): return x.query('a > @N')",
    "pandas.eval": "import pandas as pd\ndef f(x): return pd.eval('N * 3')",
    "globals": "import builtins\ndef f(x): return builtins.globals()[x]",
}.items()})
pair("globals by name: dunder", "__version__ = '@@'\ndef f(x): return globals()[x]\n")
pairs("an import", {
    "as another name": "def f(x):\n    from importlib import import_module as im\n    return im('plug').N",
    "as a value": "import importlib\nH = {'x': importlib.import_module}\ndef f(x): return H['x']('plug').N",
    "exec": "def f(x):\n    held = {}\n    exec('import plug\\nn = plug.N', held)\n    return held['n']",
    "pkgutil": "import pkgutil\ndef f(x): return pkgutil.resolve_name('plug:N')",
    "pydoc": "import pydoc\ndef f(x): return pydoc.locate('plug.N')",
    "a pickle": "import pickle\nDATA = b'cplug\\nN\\n.'\ndef f(x): return pickle.loads(DATA)",
}, **{"plug.py": "N = @@\n"})
pairs("a module", {
    "by its dict": "import other\ndef f(x): return other.__dict__['N']",
    "by a method": "import operator, other\nG = operator.attrgetter('N')\ndef f(x): return G(other)",
    "of a closure": "def make(m): return lambda x: m.N\nimport other\nf_ = make(other)\ndef f(x): return f_(x)",
    "through another": "from between import *\ndef f(x): return N",
    "in a folder": "import importlib\ndef f(x): return importlib.import_module('.'.join(['plugs', 'p%d' % 1])).N",
}, **{"other.py": "N = @@\n", "between.py": "from other import *\n", "plugs/p1.py": "N = @@\n"})
pairs("an effect of importing in", {name: f"import decimal\n{effect}\ndef f(x): return decimal.Decimal(1) / 3"
                                    for name, effect in {
    "an assignment": "_old = decimal.setcontext(decimal.Context(prec=@@))",
    "an annotated one": "_old: object = decimal.setcontext(decimal.Context(prec=@@))",
    "a package's option": "import numpy\n_old = numpy.seterr(divide='ignore' if @@ == 3 else 'raise')",
    "the environment": "import os\nMODE = os.environ.setdefault('SETTING_X', '@@')",
}.items()})
pair("an effect of importing: an accessor", """
import pandas as pd
@pd.api.extensions.register_series_accessor("sweep_x")
class A:
    def __init__(self, s): self.s = s
    def n(self): return len(self.s) * @@
def f(x): return pd.Series([1]).sweep_x.n()
""")
pairs("a hint as an object", {name: f"class Cents:\n    def __new__(cls, v): return len(v) * @@\n{read}"
                              for name, read in {
    "fields": "import dataclasses\n@dataclasses.dataclass\nclass R:\n    a: Cents\n"
    "def f(x): return [g.type(x) for g in dataclasses.fields(R)]",
    "annotations": "def g(v: Cents): return v\ndef f(x): return g.__annotations__['v'](x)",
    "texts": "import typing\nclass R:\n    a: 'Cents'\ndef f(x): return typing.get_type_hints(R)['a'](x)",
    "NewType": "import typing\nM = typing.NewType('M', Cents)\ndef f(x): return M.__supertype__(x)",
    "a TypeVar": "import typing\nT = typing.TypeVar('T', bound=Cents)\ndef f(x): return T.__bound__(x)",
}.items()})
pair("a hint of an inner function", "", """
import functools
def f(x):
    @functools.singledispatch
    def g(v): return 0
    @g.register
    def _(v: @@): return 1
    return g(x)
""", "int", "str")

# Objects that hold what they compute with in places of their own.
for name, helpers, old, new in (
    ("a ufunc", "import numpy\ndef g(x): return x * @@\nV = numpy.frompyfunc(g, 1, 1)\n"
     "def f(x): return V([x])", "3", "4"),
    ("a subclass of staticmethod", "class own(staticmethod):\n    def __get__(self, i, o=None): return lambda x: @@\n"
     "class C:\n    @own\n    def v(x): return x\ndef f(x): return C().v(x)", "3", "4"),
    ("a path's subclass", "from pathlib import PurePosixPath\nclass P(PurePosixPath):\n    def n(self): return @@\n"
     "PATH = P('/a/b')\ndef f(x): return PATH.n()", "3", "4"),
    ("a weak set", "import weakref\nclass C:\n    n = 1\nKEPT = C()\nKEPT.n = @@\nW = weakref.WeakSet([KEPT])\n"
     "def f(x): return [c.n for c in W]", "3", "4"),
    ("values of a thread", "import threading\nclass L(threading.local):\n    def __init__(self, n): self.n = n\n"
     "V = L(@@)\ndef f(x): return V.n", "3", "4"),
    ("a structure", "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int@@)]\n"
     "def f(x): return S(x).a", "8", "16"),
    ("a structure's format", "import struct\nclass B(struct.Struct): pass\nS = B('@@')\ndef f(x): return S.size",
     "i", "q"),
    ("another stream", "import sys\nS = sys.@@\ndef f(x): return S.fileno()", "stdout", "stderr"),
    ("a large number", "N = 10 ** 5000 + @@\ndef f(x): return N % 10", "3", "4"),
    ("a set of methods", "class C:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n\n"
     "S = {C(1).m, C(@@).m}\ndef f(x): return sum(m() for m in S)", "3", "4"),
):
    pair(name, f"{helpers}\n", MAIN, old, new)
pair("what an import fills that runs later",
     "import base\ndef f(x):\n    held = base.HELD\n    base.ensure()\n    return [g() for g in held]\n",
     **{"base.py": "HELD = set()\ndef ensure():\n    import plug\n",
        "plug.py": "import base\ndef add(g):\n    base.HELD.add(g)\n    return g\n@add\ndef g(): return @@\n"})
pair("two folders", "", "import eu, us\nfrom pathlib import Path\nT = Path(__file__).parent / '@@' / 'rates.txt'\n"
     "def f(x): return open(T).read()\n", "eu", "us", **{"eu/__init__.py": "", "us/__init__.py": ""})
pair("a module under another name", "", "import pkg\ndef f(x): return getattr(pkg, 'impl').run(x)\n",
     "impl_a", "impl_b", **{
         "pkg/__init__.py": "from . import @@ as impl\n", "pkg/impl_a.py": "def run(x): return 1\n",
         "pkg/impl_b.py": "def run(x): return 2\n"})
pair("a module's own text", '"@@"\n', "import helpers\ndef f(x): return getattr(helpers, '__doc__')\n")
pair("a name through data", "NAME = '__doc__'\ndef g(): '@@'\ndef f(x): return getattr(g, NAME)\n")
pair("a name in a format", "def @@(): pass\nG = @@\ndef f(x): return '{0.__name__}'.format(G)\n", MAIN, "one", "two")

# The app's own part of a package that is installed.
NAMESPACE_PACKAGE = {
    "acme/__init__.py": "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n",
    "acme/core.py": "V = 1\n",
    "acme-1.0.dist-info/METADATA": "Name: acme\nVersion: 1.0\n",
    "acme-1.0.dist-info/top_level.txt": "acme\n",
}
IN_NAMESPACE = {
    "from": "from acme.mine import g\ndef f(x): return g(x)\n",
    "by its full name": "import acme.mine\ndef f(x): return acme.mine.g(x)\n",
    "when it runs": "def f(x):\n    from acme.mine import g\n    return g(x)\n",
    "by its full name when it runs": "def f(x):\n    import acme.mine\n    return acme.mine.g(x)\n",
    "on import": "import decimal, acme.mine\ndef f(x): return decimal.Decimal(1) / 7\n",
}
MINE = "import decimal\ndecimal.getcontext().prec = @@\ndef g(x): return @@\n"
NAMESPACE_PAIRS = [
    Pair(name, "3", "4", {"app.py": MAIN, "helpers.py": source, "acme/mine.py": MINE})
    for name, source in IN_NAMESPACE.items()
]

# Of an installed package that keeps what it is told, by names.
REGISTRY_PACKAGE = {
    "regpkg/__init__.py": """
REG = {}
def find(name): return REG[name]
class Meta(type):
    def __init__(cls, name, bases, members): REG[name] = cls
class Base(metaclass=Meta): pass
class Sub:
    def __init_subclass__(cls, tag): REG[tag] = cls
class Field:
    def __set_name__(self, owner, name): REG[name] = owner
class Registry:
    def add(self, name, value): REG[name] = value
    def __setitem__(self, name, value): REG[name] = value
    def route(self, name):
        def add(function): REG[name] = function; return function
        return add
registry = Registry()
""",
    "regpkg-1.0.dist-info/METADATA": "Name: regpkg\nVersion: 1.0\n",
    "regpkg-1.0.dist-info/top_level.txt": "regpkg\n",
}
REGISTRY_PAIRS = [Pair(name, "3", "4", {"app.py": MAIN, "helpers.py": f"{source}\n"}) for name, source in {
    "a metaclass": "import regpkg\nclass Mine(regpkg.Base): n = @@\ndef f(x): return regpkg.find('Mine').n",
    "a subclass": "import regpkg\nclass Mine(regpkg.Sub, tag='m'): n = @@\ndef f(x): return regpkg.find('m').n",
    "a subclass of a subclass": "import regpkg\nclass A(regpkg.Base): pass\nclass Mine(A): n = @@\n"
    "def f(x): return regpkg.find('Mine').n",
    "a field": "import regpkg\nclass Mine:\n    a = regpkg.Field()\n    n = @@\ndef f(x): return regpkg.find('a').n",
    "a call": "from regpkg import registry, find\nX = registry.add('a', @@)\ndef f(x): return find('a')",
    "an item": "from regpkg import registry, find\nregistry['a'] = @@\ndef f(x): return find('a')",
    "a decorator": "import regpkg\n@regpkg.registry.route('a')\ndef g(): return @@\n"
    "def f(x): return regpkg.find('a')()",
}.items()]

# What stands above the statements of a module that count says nothing.
ABOVE = "import json\nUNRELATED = 3\ndef unrelated(): pass\n"
EQUAL = [Pair(f"above {name}", "", ABOVE, {"app.py": MAIN, "helpers.py": f"@@{source}\n"}) for name, source in {
    "a computed value": "T = ['a'] * 2\nU = (T, len(T))\ndef f(x): return U[1]",
    "an attribute": "class C:\n    pass\nC.n = 4\ndef f(x): return C.n",
    "an effect": "import decimal\ndecimal.getcontext().prec = 5\ndef f(x): return 1",
    "what may be one": "class C:\n    def add(self): pass\nc = C()\n_ = c.add()\ndef f(x): return 1",
}.items()]
# The names of local variables are nothing, whatever the function stands in.
EQUAL += [Pair(f"a variable in {name}", "aa", "bb", {"app.py": MAIN, "helpers.py": f"{source}\n"}) for name, source in {
    "an enum of texts": "import enum\nclass E(str, enum.Enum):\n    A = 'a'\n    C = 'a'\n    def m(self):\n"
    "        @@ = 1\n        return @@\ndef f(x): return E.A.m()",
    "a function with a decorator": WRAPS.replace(", flags", "").replace("return n", "return g(x)")
    + "N = 3\n@times(N)\ndef f(x):\n    @@ = 1\n    return @@",
    "a function with a decorator and a type": "import pyspark.sql.types as T\nfrom pyspark.sql.functions import udf\n"
    "@udf(returnType=T.LongType())\ndef g(x):\n    @@ = 1\n    return @@\ndef f(x): return g.func(x)",
    "a dataclass": "import dataclasses\n@dataclasses.dataclass(slots=True)\nclass C:\n    a: int = 1\n"
    "    b: list = dataclasses.field(default_factory=list)\n    c: int = dataclasses.field(init=False)\n"
    "    def m(self):\n        @@ = 1\n        return @@\ndef f(x): return C().m()",
    "a single dispatch": SHOW.format("@g.register(int)\n@g.register(str)\ndef _(x):\n    @@ = 1\n    return @@"),
}.items()]

# Definitions that the function of the module below them does not reach: ``@@`` is nothing.
UNREACHED = (
    "def g(x): return x * @@\n",
    "async def g(x): return x * @@\n",
    "from typing import Optional\ndef g(x: int, by: Optional[list[int]] = None, n: float = @@) -> dict: return x\n",
    "class Order:\n    'An order.'\n    N = @@\n    def __init__(self, n): self.n = n\n    def m(self): return @@\n",
    "class A:\n    n = 1\nclass B(A):\n    n = @@\n    def m(self): return super().m()\n",
    "class AppError(ValueError):\n    code = @@\n",
    "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Order:\n    n: int = @@\n",
    "LIMIT = @@\nRATES = {'a': @@, 'b': [1, 2]}\n",
    "import logging, re\nlog = logging.getLogger('app@@')\nPATTERN = re.compile('^[a-z]{@@}$')\n",
    "def main(): print(@@)\nif __name__ == '__main__': main()\n",
    "from pyspark.sql.functions import udf\nfrom pyspark.sql.types import LongType\n@udf(LongType())\n"
    "def g(x): return @@\n",
)

# The same code has the same digest in another process, with another hash seed, from another folder.
HERE = "import os, pathlib\nHERE = os.path.dirname(os.path.abspath(__file__))\n"
STABLE = {
    "many paths in a dict": HERE + "T = {i: os.path.join(HERE, f't{i}') for i in range(9)}\ndef f(x): return T",
    "a path in a text": HERE + "T = f'read {HERE}/t.csv'\ndef f(x): return T",
    "a set of paths": HERE + "T = {pathlib.Path(HERE) / n for n in 'abc'}\ndef f(x): return T",
    "the environment": "from os import environ\ndef f(x): return environ.get('SETTING_X')",
    "an annotation's objects": "import typing\ndef g(v): return v\nclass R:\n    a: typing.Annotated[int, g]\n"
    "def f(x): return typing.get_type_hints(R)",
    "a partial's subclass": "import functools\nclass P(functools.partial): pass\nG = P(len)\ndef f(x): return G(x)",
    "linked objects": "class N:\n    def __init__(self, n): self.n = n\nL = [N(i) for i in range(12)]\n"
    "for n in L: n.to = set(L) - {n}\ndef f(x): return L",
    "many frozen objects": "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass R:\n    a: int\n"
    "T = {R(i) for i in range(2000)}\ndef f(x): return T",
    "an optional import": "def f(x):\n    try:\n        import not_there as j\n    except ImportError:\n"
    "        import json as j\n    return j",
    "another system's module": "import sys\ndef f(x):\n    if sys.platform == 'win32':\n        import winreg\n"
    "    return x",
    "what holds no state": "import threading, struct, json, contextvars\nA = threading.Lock(), threading.local()\n"
    "B = struct.Struct('<i'), json.JSONDecoder(), contextvars.ContextVar('v')\ndef f(x): return A, B",
    "named tuples": "import collections, typing\nT = collections.namedtuple('T', 'a b', defaults=[2])\n"
    "class U(typing.NamedTuple):\n    a: int\n    b: int = 2\nV, W = T(1), U(1)\n"
    "def f(x): return T(x), V, U(x), W._replace(a=2)",
    "a comprehension inside another, and what reads texts": "import inspect\ndef f(x):\n"
    "    return [[b for b in range(1)] for c in range(3)], inspect.isclass(x)",
    "a large number": "N = 10 ** 5000\ndef f(x): return x + N, {N, 2 ** 20000}",
    "a set of methods": "class C:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n\n"
    "    def k(self): return 2\nS = {C(1).m, C(2).m, C(1).k}\ndef f(x): return sum(m() for m in S)",
    "weak sets": "import weakref\nA = weakref.WeakSet(), weakref.WeakValueDictionary(), weakref.WeakKeyDictionary()\n"
    "class C: pass\nclass W(weakref.WeakSet): pass\nKEPT = C()\nB = weakref.WeakSet([KEPT])\ndef f(x): return A, B",
    "streams": "import sys, logging\nE = sys.stderr\nH = logging.StreamHandler(sys.stdout)\ndef f(x): return E, H",
    "a structure": "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\n"
    "def f(x): return S(x).a",
    "subclasses of the library's": "import threading, struct\nclass L(threading.local):\n    n = 1\n"
    "class B(struct.Struct):\n    def m(self): return 2\nA = L(), B('<i')\ndef f(x): return A",
    "a forward reference": "import typing\nT = typing.Optional['R']\ndef f(x): return T",
}
# fmt: on
