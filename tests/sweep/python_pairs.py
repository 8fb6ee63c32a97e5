"""Pairs of apps whose results differ, and whose digests must: what differs stands for ``@@``.

Here belongs what the mutants (python_mutants.py) do not reach: what only a worker has, which imports the app's modules
afresh, and ways round the names that a function's instructions hold.
"""

from __future__ import annotations

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


def pair(name: str, helpers: str, app: str = MAIN, old: str = "3", new: str = "4", **more: str) -> None:
    files = {path.replace("__", "/") + ".txt" if "txt" in path else path: text for path, text in more.items()}
    PAIRS.append(Pair(name, old, new, {"app.py": app, "helpers.py": helpers, **files}))


def driver(name: str, helpers: str, sets: str) -> None:
    """The app's own file sets something of the module, which only the driver has."""
    pair(f"the driver sets {name}", helpers, f"import helpers\n{sets}\nfrom helpers import f\n")


READS = "def f(x): return N\n"
driver("a global by a function", "N = @@\ndef set(n):\n    global N\n    N = n\n" + READS, "helpers.set(5)")
driver("a product", "N = 60 * @@\n" + READS, "helpers.N = 5")
driver("one of two", "N, M = @@, 1\n" + READS, "helpers.N = 5")
driver("what is assigned twice", "N = 1\nN = @@\n" + READS, "helpers.N = 5")
driver("what is assigned in an if", "if True:\n    N = @@\n" + READS, "setattr(helpers, 'N', 5)")
driver("a function", "def g(x): return @@\ndef f(x): return g(x)\n", "helpers.g = lambda x: 5")
driver("a function by a patch", "def g(x): return @@\ndef f(x): return g(x)\n",
       "from unittest import mock\nmock.patch.object(helpers, 'g', lambda x: 5).start()")  # fmt: skip
driver("a method", "class C:\n    def m(self): return @@\ndef f(x): return C().m()\n", "helpers.C.m = lambda s: 5")
driver("an attribute of a class", "class C:\n    n = @@\ndef f(x): return C.n\n", "helpers.C.n = 5")
driver("a default", "def g(n=@@): return n\ndef f(x): return g()\n", "helpers.g.__defaults__ = (5,)")
driver("an item", "T = dict(a=@@)\ndef f(x): return T['a']\n", "helpers.T['a'] = 5")
driver("a namespace", "from types import SimpleNamespace\nS = SimpleNamespace(n=@@)\ndef f(x): return S.n\n",
       "helpers.S.n = 5")  # fmt: skip

OWN = "N = @@\nM = 7\n"
for name, read in {
    "sys.modules": "import sys\ndef f(x): return getattr(sys.modules[__name__], x)",
    "sys.modules inside": "def f(x):\n    import sys\n    return vars(sys.modules[__name__])[x]",
    "a frame": "import sys\ndef f(x): return sys._getframe().f_globals[x]",
    "a frame of inspect": "import inspect\ndef f(x): return inspect.currentframe().f_globals[x]",
    "__globals__": "def f(x): return f.__globals__[x]",
    "getmodule": "from inspect import getmodule as home\ndef f(x): return getattr(home(f), x)",
    "builtins": "import builtins\ndef f(x): return builtins.eval(x + '')",
    "a query": "def f(x): return x.query('a > @N')",
    "pandas.eval": "import pandas as pd\ndef f(x): return pd.eval('N * 3')",
    "another eval": "import builtins\ndef f(x): return builtins.globals()[x]",
}.items():
    pair(f"globals by name: {name}", f"{OWN}{read}\n")
pair("globals by name: dunder", "__version__ = '@@'\ndef f(x): return globals()[x]\n")

for name, load in {
    "as another name": "def f(x):\n    from importlib import import_module as im\n    return im('helpers').N",
    "as a default": "import importlib\ndef f(x, load=importlib.import_module): return load('helpers').N",
    "as a partial": "import importlib, functools\nL = functools.partial(importlib.import_module, 'helpers')\n"
    "def f(x): return L().N",
    "as a value": "import importlib\nH = {'x': importlib.import_module}\ndef f(x): return H['x']('helpers').N",
    "by getattr": "import importlib\ndef f(x): return getattr(importlib, 'import_module')('helpers').N",
    "exec": "def f(x):\n    held = {}\n    exec('import helpers\\nn = helpers.N', held)\n    return held['n']",
    "eval": "def f(x): return eval(\"__import__('helpers').N\")",
    "pkgutil": "import pkgutil\ndef f(x): return pkgutil.resolve_name('helpers:N')",
    "pydoc": "import pydoc\ndef f(x): return pydoc.locate('helpers.N')",
    "a pickle": "import pickle\nDATA = b'chelpers\\nN\\n.'\ndef f(x): return pickle.loads(DATA)",
}.items():
    pair(f"an import: {name}", "N = @@\n", f"{load}\n")

for name, read in {
    "by its dict": "import other\ndef f(x): return other.__dict__['N']",
    "by its dict inside": "def f(x):\n    import other\n    return other.__dict__['N']",
    "by a computed name": "import importlib as il\ndef f(x): return il.import_module('oth%s' % 'er').N",
    "by a method": "import operator, other\nG = operator.attrgetter('N')\ndef f(x): return G(other)",
    "of a closure": "def make(m): return lambda x: m.N\nimport other\nf_ = make(other)\ndef f(x): return f_(x)",
    "through another": "from between import *\ndef f(x): return N",
    "in a folder": "import importlib\ndef f(x): return importlib.import_module('.'.join(['plugs', 'p%d' % 1])).N",
}.items():
    pair(f"a module {name}", f"{read}\n", **{
        "other.py": "N = @@\n", "between.py": "from other import *\n", "plugs__p1.py": "N = @@\n"})  # fmt: skip

SET = "import decimal\ndef setup(n):\n    decimal.getcontext().prec = n\n    return ()\n"
for name, effect in {
    "an assignment": "_old = decimal.setcontext(decimal.Context(prec=@@))",
    "an annotated one": "_old: object = decimal.setcontext(decimal.Context(prec=@@))",
    "a call in it": "_old = setup(@@)",
    "a class body": "class C:\n    decimal.getcontext().prec = @@",
    "a loop": "for _ in setup(@@): pass",
    "a condition": "if setup(@@): pass",
    "a default": "def g(x=setup(@@)): return x",
    "a decorator": "@(lambda g: setup(@@))\ndef g(x): return x",
    "a package's option": "import numpy\n_old = numpy.seterr(divide='ignore' if @@ == 3 else 'raise')",
    "the environment": "import os\nMODE = os.environ.setdefault('SETTING_X', '@@')",
}.items():
    pair(f"an effect of importing in {name}", f"{SET}{effect}\ndef f(x): return decimal.Decimal(1) / 3\n")
pair("an effect of importing: an accessor", """
import pandas as pd
@pd.api.extensions.register_series_accessor("sweep_x")
class A:
    def __init__(self, s): self.s = s
    def n(self): return len(self.s) * @@
def f(x): return pd.Series([1]).sweep_x.n()
""")  # fmt: skip

CENTS = "class Cents:\n    def __new__(cls, v): return len(v) * @@\n"
for name, read in {
    "fields": "import dataclasses\n@dataclasses.dataclass\nclass R:\n    a: Cents\n"
    "def f(x): return [g.type(x) for g in dataclasses.fields(R)]",
    "hints": "from typing import get_type_hints\nclass R:\n    a: Cents\n"
    "def f(x): return [t(x) for t in get_type_hints(R).values()]",
    "annotations": "def g(v: Cents): return v\ndef f(x): return g.__annotations__['v'](x)",
    "a signature": "import inspect\ndef g(v: Cents): return v\n"
    "def f(x): return inspect.signature(g).parameters['v'].annotation(x)",
    "texts": "import typing\nclass R:\n    a: 'Cents'\ndef f(x): return typing.get_type_hints(R)['a'](x)",
    "NewType": "import typing\nM = typing.NewType('M', Cents)\ndef f(x): return M.__supertype__(x)",
    "a TypeVar": "import typing\nT = typing.TypeVar('T', bound=Cents)\ndef f(x): return T.__bound__(x)",
}.items():
    pair(f"a hint as an object: {name}", f"{CENTS}{read}\n")
pair("a hint of an inner function", "", """
import functools
def f(x):
    @functools.singledispatch
    def g(v): return 0
    @g.register
    def _(v: @@): return 1
    return g(x)
""", "int", "str")  # fmt: skip

pair("a ufunc", "import numpy\ndef g(x): return x * @@\nV = numpy.frompyfunc(g, 1, 1)\ndef f(x): return V([x])\n")
for kind, method in (("staticmethod", "v(x)"), ("classmethod", "v(cls, x)")):
    pair(f"a subclass of {kind}", f"""
class own({kind}):
    def __get__(self, i, o=None): return lambda x: @@
class C:
    @own
    def {method}: return x
def f(x): return C().v(x)
""")  # fmt: skip
pair("a path's subclass", """
from pathlib import PurePosixPath
class P(PurePosixPath):
    def n(self): return @@
PATH = P("/a/b")
def f(x): return PATH.n()
""")  # fmt: skip
PAIRS.append(
    Pair("two folders", "eu", "us", {
        "app.py": "import eu, us\nfrom pathlib import Path\nT = Path(__file__).parent / '@@' / 'rates.txt'\n"
        "def f(x): return open(T).read()\n", "eu/__init__.py": "", "us/__init__.py": ""})
)  # fmt: skip
PAIRS.append(
    Pair("a module under another name", "impl_a", "impl_b", {
        "app.py": "import pkg\ndef f(x): return getattr(pkg, 'impl').run(x)\n",
        "pkg/__init__.py": "from . import @@ as impl\n",
        "pkg/impl_a.py": "def run(x): return 1\n", "pkg/impl_b.py": "def run(x): return 2\n"})
)  # fmt: skip
pair("a module's own text", '"@@"\n', "import helpers\ndef f(x): return getattr(helpers, '__doc__')\n")
pair("a name through data", "NAME = '__doc__'\ndef g(): '@@'\ndef f(x): return getattr(g, NAME)\n")
pair("a name in a format", "def @@(): pass\nG = @@\ndef f(x): return '{0.__name__}'.format(G)\n", MAIN, "one", "two")

pair(
    "what an import fills that runs later",
    "import base\ndef f(x):\n    held = base.HELD\n    base.ensure()\n    return [g() for g in held]\n",
    **{
        "base.py": "HELD = set()\ndef ensure():\n    import plug\n",
        "plug.py": "import base\ndef add(g):\n    base.HELD.add(g)\n    return g\n@add\ndef g(): return @@\n",
    },
)
for name, branch in {
    "a function": "if flags.ON:\n    def g(x): return 7\nelse:\n    def g(x): return @@\n",
    "a class": "if flags.ON:\n    class g:\n        n = 7\nelse:\n    class g:\n        n = @@\n",
    "an import": "if flags.ON:\n    from one import g\nelse:\n    from two import g\n",
}.items():
    pair(
        f"a branch that the driver does not take: {name}",
        f"import flags\n{branch}def f(x): return g(x)\n",
        "import flags\nflags.ON = True\nfrom helpers import f\n",
        **{"flags.py": "ON = False\n", "one.py": "def g(x): return 7\n", "two.py": "def g(x): return @@\n"},
    )

# The app's own part of a package that is installed.
NAMESPACE_PACKAGE = {
    "acme/__init__.py": "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n",
    "acme/core.py": "V = 1\n",
    "acme-1.0.dist-info/METADATA": "Name: acme\nVersion: 1.0\n",
    "acme-1.0.dist-info/top_level.txt": "acme\n",
}
IN_NAMESPACE = {
    "from": "from acme.mine import g\ndef f(x): return g(x)\n",
    "a module": "from acme import mine\ndef f(x): return mine.g(x)\n",
    "by its full name": "import acme.mine\ndef f(x): return acme.mine.g(x)\n",
    "when it runs": "def f(x):\n    from acme.mine import g\n    return g(x)\n",
    "by its full name when it runs": "def f(x):\n    import acme.mine\n    return acme.mine.g(x)\n",
    "on import": "import decimal, acme.mine\ndef f(x): return decimal.Decimal(1) / 7\n",
}
MINE = "import decimal\ndecimal.getcontext().prec = @@\ndef g(x): return @@\n"

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
    def __ior__(self, other): REG.update(other); return self
    def route(self, name):
        def add(function): REG[name] = function; return function
        return add
registry = Registry()
""",
    "regpkg-1.0.dist-info/METADATA": "Name: regpkg\nVersion: 1.0\n",
    "regpkg-1.0.dist-info/top_level.txt": "regpkg\n",
}
REGISTRY = {
    "a metaclass": "import regpkg\nclass Mine(regpkg.Base): n = @@\ndef f(x): return regpkg.find('Mine').n\n",
    "a subclass": "import regpkg\nclass Mine(regpkg.Sub, tag='m'): n = @@\ndef f(x): return regpkg.find('m').n\n",
    "a subclass of a subclass": "import regpkg\nclass A(regpkg.Base): pass\nclass Mine(A): n = @@\n"
    "def f(x): return regpkg.find('Mine').n\n",
    "a field": "import regpkg\nclass Mine:\n    a = regpkg.Field()\n    n = @@\ndef f(x): return regpkg.find('a').n\n",
    "a call": "from regpkg import registry, find\nX = registry.add('a', @@)\ndef f(x): return find('a')\n",
    "an item": "from regpkg import registry, find\nregistry['a'] = @@\ndef f(x): return find('a')\n",
    "an operator": "from regpkg import registry, find\nregistry |= {'a': @@}\ndef f(x): return find('a')\n",
    "a decorator": "import regpkg\n@regpkg.registry.route('a')\ndef g(): return @@\n"
    "def f(x): return regpkg.find('a')()\n",
}

pair("a weak set", "import weakref\nclass C:\n    n = 1\nKEPT = C()\nKEPT.n = @@\nW = weakref.WeakSet([KEPT])\n"
     "def f(x): return [c.n for c in W]\n")  # fmt: skip
pair("values of a thread", "import threading\nclass L(threading.local):\n    def __init__(self, n): self.n = n\n"
     "V = L(@@)\ndef f(x): return V.n\n")  # fmt: skip
pair("a structure", "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int@@)]\n"
     "def f(x): return S(x).a\n", old="8", new="16")  # fmt: skip
pair("a structure's format", "import struct\nclass B(struct.Struct): pass\nS = B('@@')\ndef f(x): return S.size\n",
     old="i", new="q")  # fmt: skip
pair("another stream", "import sys\nS = sys.@@\ndef f(x): return S.fileno()\n", old="stdout", new="stderr")
pair("a large number", "N = 10 ** 5000 + @@\ndef f(x): return N % 10\n")
pair("a set of methods", "class C:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n\n"
     "S = {C(1).m, C(@@).m}\ndef f(x): return sum(m() for m in S)\n")  # fmt: skip

# What stands above the statements of a module that count says nothing.
ABOVE = "import json\nUNRELATED = 3\ndef unrelated(): pass\n"
BELOW = {
    "a computed value": "T = ['a'] * 2\nU = (T, len(T))\ndef f(x): return U[1]\n",
    "a call": "def g(): return 1\nX = g()\ndef f(x): return X\n",
    "an attribute": "class C:\n    pass\nC.n = 4\ndef f(x): return C.n\n",
    "an effect": "import decimal\ndecimal.getcontext().prec = 5\ndef f(x): return 1\n",
    "what may be one": "class C:\n    def add(self): pass\nc = C()\n_ = c.add()\ndef f(x): return 1\n",
}

# Definitions that the function of the module below them does not reach: ``@@`` is nothing.
UNREACHED = (
    "def g(x): return x * @@\n",
    "async def g(x): return x * @@\n",
    "def g():\n    yield @@\n",
    "def make(n):\n    def inner(x): return x * n * @@\n    return inner\n",
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
    "many paths": HERE + "T = [os.path.join(HERE, f't{i}') for i in range(9)]\ndef f(x): return T",
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
    "a named tuple": "import collections\nT = collections.namedtuple('T', 'a b', defaults=[2])\nV = T(1)\n"
    "def f(x): return T(x), V",
    "a NamedTuple": "import typing\nclass T(typing.NamedTuple):\n    a: int\n    b: int = 2\n    def sum(self):\n"
    "        return self.a + self.b\nV = T(1)\ndef f(x): return T(x).sum(), V._replace(a=2), V._asdict()",
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
