"""What importing a module does: statements of an app's module that do more than to give values to names, and ordinary
ones that do not.

An effect sets what any code of the process reads afterwards (decimal's context, above all), in ways that no call in the
statement shows: operators, properties, metaclasses, functions that are handed on.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.sweep.python_pairs import MAIN, Pair

EFFECTS: list[Pair] = []
BEFORE = "import decimal\n"
AFTER = "\ndef f(x):\n    return decimal.Decimal(1) / 7\n"
NO_FILES: Mapping[str, str] = {}


def effect(name: str, source: str, files: Mapping[str, str] = NO_FILES) -> None:
    """A module whose import sets decimal's precision to ``@@``."""
    module(name, f"{BEFORE}{source}{AFTER}", files)


def module(name: str, source: str, files: Mapping[str, str] = NO_FILES, old: str = "3", new: str = "4") -> None:
    EFFECTS.append(Pair(f"on import: {name}", old, new, {"app.py": MAIN, "helpers.py": source, **files}))


# fmt: off
effect('method add on an app object', """
class C:
    def add(self, n):
        decimal.getcontext().prec = n
CONF = C()
_ = CONF.add(@@)
""")
effect('method get on an app object', """
class C:
    def get(self, n):
        decimal.getcontext().prec = n
        return n
N = C().get(@@)
""")
effect('alias local module method', """
def setup():
    m = decimal
    m.setcontext(m.Context(prec=@@))
    return 1
X = setup()
""")
effect('init_subclass effect', """
class Base:
    def __init_subclass__(cls, n=0):
        decimal.getcontext().prec = n
class B(Base, n=@@):
    pass
""")
effect('metaclass effect', """
class M(type):
    def __init__(cls, n, b, d):
        decimal.getcontext().prec = d.get('n', 9)
class B(metaclass=M):
    n = @@
""")
effect('set_name effect', """
class F:
    def __init__(self, n):
        self.n = n
    def __set_name__(self, o, n):
        decimal.getcontext().prec = self.n
class B:
    a = F(@@)
""")
effect('operator effect', """
class F:
    def __or__(self, n):
        decimal.getcontext().prec = n
        return self
X = F() | @@
""")
effect('rshift effect', """
class F:
    def __rshift__(self, n):
        decimal.getcontext().prec = n
        return self
X = F() >> @@
""")
effect('getitem effect', """
class F:
    def __getitem__(self, n):
        decimal.getcontext().prec = n
        return self
X = F()[@@]
""")
effect('class_getitem effect', """
class F:
    def __class_getitem__(self, n):
        decimal.getcontext().prec = n
        return self
X = F[@@]
""")
effect('property effect', """
class F:
    @property
    def on(self):
        decimal.getcontext().prec = @@
        return self
X = F().on
""")
effect('iter effect', """
class F:
    def __iter__(self):
        decimal.getcontext().prec = @@
        return iter(())
for _ in F():
    pass
""")
effect('iter effect unpack', """
class F:
    def __iter__(self):
        decimal.getcontext().prec = @@
        return iter((1, 2))
A, B = F()
""")
effect('listcomp generator', """
def g():
    decimal.getcontext().prec = @@
    yield 1
X = [y for y in g()]
""")
effect('format effect', """
class F:
    def __format__(self, s):
        decimal.getcontext().prec = int(s)
        return s
X = f'{F():@@}'
""")
effect('str effect', """
class F:
    def __str__(self):
        decimal.getcontext().prec = @@
        return ''
X = f'{F()}'
""")
effect('str() effect', """
class F:
    def __str__(self):
        decimal.getcontext().prec = @@
        return ''
X = str(F())
""")
effect('bool effect', """
class F:
    def __bool__(self):
        decimal.getcontext().prec = @@
        return True
if F():
    pass
""")
effect('eq effect', """
class F:
    def __eq__(self, o):
        decimal.getcontext().prec = o
        return True
X = F() == @@
""")
effect('contains effect', """
class F:
    def __contains__(self, o):
        decimal.getcontext().prec = o
        return True
X = @@ in F()
""")
effect('iadd effect', """
class F:
    def __iadd__(self, o):
        decimal.getcontext().prec = o
        return self
X = F()
X += @@
""")
effect('enter effect', """
class F:
    def open(self):
        return self
    def __enter__(self):
        decimal.getcontext().prec = @@
        return self
    def __exit__(self, *a):
        pass
with F().open() as y:
    pass
""")
effect('call of instance', """
class F:
    def __call__(self, n):
        decimal.getcontext().prec = n
        return self
G = F()
X = G(@@)
""")
effect('call of partial', """
import functools
def g(n):
    decimal.getcontext().prec = n
G = functools.partial(g, @@)
X = G()
""")
effect('map sorted key', """
def g(n):
    decimal.getcontext().prec = n
    return n
X = list(map(g, [@@]))
""")
effect('map lambda', """
X = list(map(lambda n: decimal.getcontext().__setattr__('prec', n), [@@]))
""")
effect('sorted key', """
def g(n):
    decimal.getcontext().prec = n
    return n
X = sorted([@@], key=g)
""")
effect('max key setter', """
X = max([@@], key=lambda n: setattr(decimal.getcontext(), 'prec', n) or n)
""")
effect('reduce', """
import functools
def g(a, n):
    decimal.getcontext().prec = n
    return n
X = functools.reduce(g, [1, @@])
""")
effect('defaultdict', """
import collections
def g():
    decimal.getcontext().prec = @@
    return 1
T = collections.defaultdict(g)
X = T['a']
""")
effect('dict get default', """
def g(n):
    decimal.getcontext().prec = n
    return 1
X = {}.get('a', g(@@))
""")
effect('lambda immediately', """
X = (lambda: setattr(decimal.getcontext(), 'prec', @@))()
""")
effect('lambda named', """
L = lambda n: setattr(decimal.getcontext(), 'prec', n)
X = L(@@)
""")
effect('cached function', """
import functools
@functools.cache
def g(n):
    decimal.getcontext().prec = n
X = g(@@)
""")
effect('cached property', """
import functools
class C:
    @functools.cached_property
    def g(self):
        decimal.getcontext().prec = @@
X = C().g
""")
effect('singledispatch call', """
import functools
@functools.singledispatch
def g(n):
    pass
@g.register
def _(n: int):
    decimal.getcontext().prec = n
X = g(@@)
""")
effect('contextmanager', """
import contextlib
@contextlib.contextmanager
def g(n):
    decimal.getcontext().prec = n
    yield
with g(@@):
    pass
""")
effect('classmethod', """
class C:
    @classmethod
    def make(cls, n):
        decimal.getcontext().prec = n
        return cls()
X = C.make(@@)
""")
effect('staticmethod', """
class C:
    @staticmethod
    def make(n):
        decimal.getcontext().prec = n
X = C.make(@@)
""")
effect('dataclass post init', """
import dataclasses
@dataclasses.dataclass
class C:
    n: int
    def __post_init__(self):
        decimal.getcontext().prec = self.n
X = C(@@)
""")
effect('dataclass default factory', """
import dataclasses
def g():
    decimal.getcontext().prec = @@
    return 1
@dataclasses.dataclass
class C:
    n: int = dataclasses.field(default_factory=g)
X = C()
""")
effect('enum init', """
import enum
class E(enum.Enum):
    A = @@
    def __init__(self, n):
        decimal.getcontext().prec = n
""")
effect('enum new/missing', """
import enum
class E(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, n):
        decimal.getcontext().prec = n
        return cls.A
X = E(@@)
""")
effect('enum generate next', """
import enum
class E(enum.Enum):
    def _generate_next_value_(n, s, c, l):
        decimal.getcontext().prec = @@
        return 1
    A = enum.auto()
""")
effect('namedtuple new', """
import typing
class T(typing.NamedTuple):
    a: int
class U(T):
    def __new__(cls, a):
        decimal.getcontext().prec = a
        return super().__new__(cls, a)
X = U(@@)
""")
effect('metaclass call', """
class M(type):
    def __call__(cls, n):
        decimal.getcontext().prec = n
        return 1
class C(metaclass=M):
    pass
X = C(@@)
""")
effect('descriptor get on class', """
class Dd:
    def __get__(self, i, o):
        decimal.getcontext().prec = @@
        return 1
class C:
    a = Dd()
X = C.a
""")
effect('metaclass prepare', """
class M(type):
    @classmethod
    def __prepare__(m, n, b):
        decimal.getcontext().prec = @@
        return {}
class C(metaclass=M):
    pass
""")
effect('mro_entries', """
class M:
    def __mro_entries__(self, b):
        decimal.getcontext().prec = @@
        return ()
class C(M()):
    pass
""")
effect('decorator class', """
class deco:
    def __init__(self, n):
        self.n = n
    def __call__(self, f):
        decimal.getcontext().prec = self.n
        return f
@deco(@@)
def g():
    pass
""")
effect('decorator inner lambda', """
def deco(n):
    return lambda f: (setattr(decimal.getcontext(), 'prec', n), f)[1]
@deco(@@)
def g():
    pass
""")
effect('decorator inner defined nested if', """
def deco(n):
    if n:
        def w(f):
            decimal.getcontext().prec = n
            return f
        return w
@deco(@@)
def g():
    pass
""")
effect('decorator bound method', """
class A:
    def route(self, n):
        def w(f):
            decimal.getcontext().prec = n
            return f
        return w
APP = A()
@APP.route(@@)
def g():
    pass
""")
effect('decorator returning class instance', """
class W:
    def __init__(self, f, n):
        decimal.getcontext().prec = n
def deco(n):
    def w(f):
        return W(f, n)
    return w
@deco(@@)
def g():
    pass
""")
effect('nested function called', """
def setup(n):
    def inner():
        decimal.getcontext().prec = n
    inner()
    return 1
X = setup(@@)
""")
effect('nested function returned assigned', """
def setup(n):
    def inner():
        decimal.getcontext().prec = n
    return inner
X = setup(@@)()
""")
effect('global in function', """
class H:
    pass
H = decimal.getcontext
X = H().__setattr__('prec', @@)
""")
effect('attrs validator', """
import attrs
def v(i, a, n):
    decimal.getcontext().prec = n
@attrs.define
class C:
    n: int = attrs.field(validator=v)
X = C(@@)
""")
effect('attrs converter', """
import attrs
def v(n):
    decimal.getcontext().prec = n
    return n
@attrs.define
class C:
    n: int = attrs.field(converter=v)
X = C(@@)
""")
effect('attrs post init', """
import attrs
@attrs.define
class C:
    n: int
    def __attrs_post_init__(self):
        decimal.getcontext().prec = self.n
X = C(@@)
""")
effect('attrs pre init', """
import attrs
@attrs.define
class C:
    n: int
    def __attrs_pre_init__(self):
        decimal.getcontext().prec = @@
X = C(2)
""")
effect('setattr hook on attrs', """
import attrs
def h(i, a, v):
    decimal.getcontext().prec = v
    return v
@attrs.define(on_setattr=h)
class C:
    n: int = 1
def go():
    c = C()
    c.n = @@
    return c
X = go()
""")
effect('__setattr__ own', """
class C:
    def __setattr__(self, k, v):
        decimal.getcontext().prec = v
def go():
    c = C()
    c.n = @@
    return c
X = go()
""")
effect('method of local instance', """
class C:
    def run(self, n):
        decimal.getcontext().prec = n
def go():
    c = C()
    c.run(@@)
    return c
X = go()
""")
effect('init calls method', """
class C:
    def __init__(self, n):
        self.apply(n)
    def apply(self, n):
        decimal.getcontext().prec = n
X = C(@@)
""")
effect('super init', """
class B:
    def __init__(self, n):
        decimal.getcontext().prec = n
class C(B):
    def __init__(self, n):
        super().__init__(n)
X = C(@@)
""")
effect('annotation of a function', """
class F:
    def __or__(self, n):
        decimal.getcontext().prec = n
        return self
X = F()
def g(v: X | @@):
    pass
""")
effect('annotation of a name', """
class F:
    def __getitem__(self, n):
        decimal.getcontext().prec = n
        return self
X = F()
Y: X[@@] = 1
""")
effect('metaclass operator in annotation', """
class M(type):
    def __or__(cls, n):
        decimal.getcontext().prec = @@
        return cls
class C(metaclass=M):
    pass
def g(v: C | None):
    pass
""")
effect('default by property', """
class F:
    @property
    def on(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
def g(v=X.on):
    pass
""")
effect('class keyword', """
class F:
    def __neg__(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
class B:
    def __init_subclass__(cls, n=0):
        pass
class C(B, n=-X):
    pass
""")
effect('dict key hash', """
class F:
    def __hash__(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
T = {X: 1}
""")
effect('set of app objects', """
class F:
    def __hash__(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
T = {X}
""")
effect('frozenset of app objects', """
class F:
    def __hash__(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
T = frozenset([X])
""")
effect('hash of enum', """
import enum
class E(enum.Enum):
    A = 1
    def __hash__(self):
        decimal.getcontext().prec = @@
        return 1
T = {E.A: 1}
""")
effect('enum mixin new', """
import enum
class S(str):
    def __new__(cls, v):
        decimal.getcontext().prec = @@
        return str.__new__(cls, v)
class E(S, enum.Enum):
    A = 'a'
""")
effect('enum with own meta', """
import enum
class M(enum.EnumMeta):
    def __call__(cls, *a):
        decimal.getcontext().prec = @@
        return super().__call__(*a)
class E(enum.Enum, metaclass=M):
    A = 1
X = E(1)
""")
effect("enum member's property", """
import enum
class E(enum.Enum):
    A = 1
    @property
    def n(self):
        decimal.getcontext().prec = @@
        return 1
X = E.A.n
""")
effect('enum value override', """
import enum
class E(enum.Enum):
    A = 1
    @property
    def value(self):
        decimal.getcontext().prec = @@
        return 1
X = E.A.value
""")
effect('enum iteration', """
import enum
class E(enum.Enum):
    A = 1
    @property
    def n(self):
        decimal.getcontext().prec = @@
        return 1
X = [e.n for e in E]
""")
effect('getattribute', """
class F:
    n = 1
    def __getattribute__(self, k):
        decimal.getcontext().prec = @@
        return 1
X = F()
Y = X.n
""")
effect('getattr of an instance', """
class F:
    def __getattr__(self, k):
        decimal.getcontext().prec = @@
        return 1
X = F()
Y = X.n
""")
effect('getattr of metaclass', """
class M(type):
    def __getattr__(self, k):
        decimal.getcontext().prec = @@
        return 1
class F(metaclass=M):
    pass
Y = F.n
""")
effect('subclass of dict missing', """
class T(dict):
    def __missing__(self, k):
        decimal.getcontext().prec = @@
        return 1
X = T()
Y = X['a']
""")
effect('list holding', """
class F:
    def __neg__(self):
        decimal.getcontext().prec = @@
        return 1
L = [F()]
Y = -L[0]
""")
effect('list filled', """
class F:
    def __neg__(self):
        decimal.getcontext().prec = @@
        return 1
L = []
L.append(F())
Y = -L[0]
L.clear()
""")
effect('a rebound name', """
class F:
    def __neg__(self):
        decimal.getcontext().prec = @@
        return 1
X = F()
Y = -X
X = 5
""")
effect('a name set by global', """
class F:
    def __neg__(self):
        decimal.getcontext().prec = @@
        return 1
X = 1
def go():
    global X
    X = F()
    return 1
_ = go()
Y = -X
""")
effect('comparison in sorting', """
class F:
    def __lt__(self, o):
        decimal.getcontext().prec = @@
        return True
L = [F(), F()]
Y = sorted(L)
""")
effect('min of instances', """
class F:
    def __lt__(self, o):
        decimal.getcontext().prec = @@
        return True
A = F()
B = F()
Y = min(A, B)
""")
effect('len', """
class F:
    def __len__(self):
        decimal.getcontext().prec = @@
        return 1
A = F()
Y = len(A)
""")
effect('repr', """
class F:
    def __repr__(self):
        decimal.getcontext().prec = @@
        return ''
A = F()
Y = repr([A])
""")
effect('join', """
class F:
    def __iter__(self):
        decimal.getcontext().prec = @@
        return iter('a')
A = F()
Y = ','.join(A)
""")
effect('format method', """
class F:
    def __format__(self, s):
        decimal.getcontext().prec = @@
        return s
A = F()
Y = '{}'.format(A)
""")
effect('percent', """
class F:
    def __str__(self):
        decimal.getcontext().prec = @@
        return ''
A = F()
Y = '%s' % A
""")
effect('int()', """
class F:
    def __int__(self):
        decimal.getcontext().prec = @@
        return 1
A = F()
Y = int(A)
""")
effect('isinstance', """
class M(type):
    def __instancecheck__(self, o):
        decimal.getcontext().prec = @@
        return True
class F(metaclass=M):
    pass
Y = isinstance(1, F)
""")
effect('copy', """
import copy
class F:
    def __copy__(self):
        decimal.getcontext().prec = @@
        return self
A = F()
Y = copy.copy(A)
""")
effect('starred call', """
class F:
    def __iter__(self):
        decimal.getcontext().prec = @@
        return iter(())
A = F()
Y = max(1, 2, *A)
""")
effect('mapping call', """
class F:
    def keys(self):
        decimal.getcontext().prec = @@
        return []
    def __getitem__(self, k):
        return 1
A = F()
Y = dict(**A)
""")
effect('dict from an object', """
class F:
    def keys(self):
        decimal.getcontext().prec = @@
        return []
    def __getitem__(self, k):
        return 1
A = F()
Y = dict(A)
""")
effect('dict unpack', """
class F:
    def keys(self):
        decimal.getcontext().prec = @@
        return []
    def __getitem__(self, k):
        return 1
A = F()
Y = {**A}
""")
effect('list unpack', """
class F:
    def __iter__(self):
        decimal.getcontext().prec = @@
        return iter(())
A = F()
Y = [*A]
""")
effect('json default', """
import json
def d(o):
    decimal.getcontext().prec = @@
    return 1
X = json.dumps({1}, default=d) if 0 else json.dumps(object(), default=d)
""")
effect('json hook', """
import json
def d(o):
    decimal.getcontext().prec = @@
    return o
X = json.loads('{}', object_hook=d)
""")
effect('re.sub function', """
import re
def d(m):
    decimal.getcontext().prec = @@
    return ''
X = re.sub('a', d, 'a')
""")
effect('pattern.sub function', """
import re
PT = re.compile('a')
def d(m):
    decimal.getcontext().prec = @@
    return ''
X = PT.sub(d, 'a')
""")
effect('itertools', """
import itertools
def d(a, b):
    decimal.getcontext().prec = @@
    return a
X = list(itertools.accumulate([1, 2], d))
""")
effect('groupby', """
import itertools
def d(a):
    decimal.getcontext().prec = @@
    return a
X = dict(itertools.groupby([1, 2], key=d))
""")
effect('filter', """
def d(a):
    decimal.getcontext().prec = @@
    return a
X = tuple(filter(d, [1]))
""")
effect('iter sentinel', """
def d():
    decimal.getcontext().prec = @@
    return 1
X = list(iter(d, 1))
""")
effect('lambda in dict called', """
T = {'a': lambda: setattr(decimal.getcontext(), 'prec', @@)}
X = T['a']()
""")
effect('lambda in list called through a name', """
def g():
    decimal.getcontext().prec = @@
T = [g]
h = T[0]
X = h()
""")
effect('alias of a function', """
def g():
    decimal.getcontext().prec = @@
h = g
X = h()
""")
effect('attribute alias', """
class N:
    pass
def g():
    decimal.getcontext().prec = @@
n = N()
n.h = g
X = n.h()
""")
effect('SimpleNamespace', """
import types
def g():
    decimal.getcontext().prec = @@
n = types.SimpleNamespace(h=g)
X = n.h()
""")
effect('SimpleNamespace eq', """
import types
class F:
    def __eq__(s, o):
        decimal.getcontext().prec = @@
        return True
n = types.SimpleNamespace(h=F())
m = types.SimpleNamespace(h=F())
X = n == m
""")
effect('partial of method', """
import functools
class F:
    def get(self):
        decimal.getcontext().prec = @@
h = functools.partial(F().get)
X = h()
""")
effect('methodcaller', """
import operator
class F:
    def get(self):
        decimal.getcontext().prec = @@
A = F()
X = operator.methodcaller('get')(A)
""")
effect('attrgetter', """
import operator
class F:
    @property
    def n(self):
        decimal.getcontext().prec = @@
        return 1
A = F()
X = operator.attrgetter('n')(A)
""")
effect('operator function', """
import operator
class F:
    def __add__(self, o):
        decimal.getcontext().prec = @@
        return 1
A = F()
X = operator.add(A, 1)
""")
effect('registry called', """
RULES = {}
def rule(n):
    def w(g):
        RULES[n] = g
        return g
    return w
@rule('a')
def a():
    decimal.getcontext().prec = @@
X = RULES.get('a')()
""")
effect("dataclass's field descriptor", """
import dataclasses
class Dd:
    def __get__(s, i, o):
        return 1
    def __set__(s, i, v):
        decimal.getcontext().prec = @@
@dataclasses.dataclass
class C:
    n: int = Dd()
X = C(2)
""")
effect('dataclass with setattr', """
import dataclasses
@dataclasses.dataclass
class C:
    n: int = 1
    def __setattr__(s, k, v):
        decimal.getcontext().prec = @@
X = C(2)
""")
effect('dataclass inherits post init', """
import dataclasses
class B:
    def __post_init__(self):
        decimal.getcontext().prec = @@
@dataclasses.dataclass
class C(B):
    n: int = 1
X = C(2)
""")
effect('delete', """
class C:
    def __del__(self):
        decimal.getcontext().prec = @@
X = C()
X = None
""")
effect('decorator wraps and calls', """
def deco(g):
    def w():
        return g()
    w()
    return w
@deco
def h():
    decimal.getcontext().prec = @@
""")
effect('two decorators', """
import functools
def a(g):
    @functools.wraps(g)
    def w():
        return g()
    return w
def b(g):
    g()
    return g
@b
@a
def h():
    decimal.getcontext().prec = @@
""")
effect("decorator's default", """
class F:
    def __neg__(s):
        decimal.getcontext().prec = @@
        return 1
X = F()
def deco(g):
    def w(n=-X):
        return g()
    return w
@deco
def h():
    pass
""")
effect("decorator's annotation", """
class F:
    def __neg__(s):
        decimal.getcontext().prec = @@
        return 1
X = F()
def deco(g):
    def w(n: -X):
        return g()
    return w
@deco
def h():
    pass
""")
effect('functools.wraps of an odd object', """
import functools
class F:
    @property
    def __doc__(s):
        decimal.getcontext().prec = @@
        return ''
X = F()
def w():
    pass
G = functools.wraps(X)(w)
""")
effect('update_wrapper of an odd object', """
import functools
class F:
    @property
    def __doc__(s):
        decimal.getcontext().prec = @@
        return ''
X = F()
def w():
    pass
G = functools.update_wrapper(w, X)
""")
effect('builtin as decorator', """
class C:
    def __init__(self):
        decimal.getcontext().prec = @@
@callable
class X:
    pass
@lambda c: c()
class Y:
    def __init__(self):
        decimal.getcontext().prec = @@
""")
effect("set_name of a builtin's subclass", """
class p(property):
    def __set_name__(s, o, n):
        decimal.getcontext().prec = @@
class C:
    @p
    def a(self):
        pass
""")
effect("a class decorator of the app's", """
def go(c):
    c.setup()
    return c
@go
class C:
    @classmethod
    def setup(cls):
        decimal.getcontext().prec = @@
""")
effect('abc register hook', """
import abc
class B(abc.ABC):
    @classmethod
    def __subclasshook__(cls, o):
        decimal.getcontext().prec = @@
        return True
X = issubclass(int, B)
""")
effect('typed dict with hints', """
import typing
class F:
    def __neg__(s):
        decimal.getcontext().prec = @@
        return int
X = F()
class T(typing.TypedDict):
    a: -X
""")
effect('generic with class_getitem', """
import typing
T = typing.TypeVar('T')
class G(typing.Generic[T]):
    def __class_getitem__(cls, k):
        decimal.getcontext().prec = @@
        return cls
class H(G[int]):
    pass
""")
effect('assert', """
class F:
    def __bool__(s):
        decimal.getcontext().prec = @@
        return True
X = F()
assert X
""")
effect('while', """
class F:
    def __bool__(s):
        decimal.getcontext().prec = @@
        return False
X = F()
while X:
    pass
""")
effect('and or', """
class F:
    def __bool__(s):
        decimal.getcontext().prec = @@
        return False
X = F()
Y = X and 1
""")
effect('chained comparison', """
class F:
    def __gt__(s, o):
        decimal.getcontext().prec = @@
        return False
    def __lt__(s, o):
        decimal.getcontext().prec = @@
        return False
X = F()
Y = 1 < X < 3
""")
effect('match', """
class F:
    def __eq__(s, o):
        decimal.getcontext().prec = @@
        return False
X = F()
match X:
    case 1:
        pass
""")
effect('except class', """
class M(type):
    def __subclasscheck__(s, o):
        decimal.getcontext().prec = @@
        return True
try:
    Y = int('a')
except tuple([ValueError]):
    Y = 1
class F:
    def __get__(s, i, o):
        return 1
class P:
    @property
    def E(s):
        decimal.getcontext().prec = @@
        return ValueError
X = P()
try:
    Y = int('a')
except X.E:
    Y = 1
""")
effect('del of a subscript', """
class F:
    def __delitem__(s, o):
        decimal.getcontext().prec = @@
X = F()
del X[0]
""")
effect('slice of app object', """
class F:
    def __index__(s):
        decimal.getcontext().prec = @@
        return 1
X = F()
Y = [1, 2, 3][X:]
""")
effect('walrus in a comprehension', """
def g():
    decimal.getcontext().prec = @@
    return 1
Y = [(z := g()) for _ in range(1)]
""")
effect('comprehension condition', """
def g():
    decimal.getcontext().prec = @@
    return 1
Y = [1 for _ in range(1) if g()]
""")
effect('generator consumed', """
def g():
    decimal.getcontext().prec = @@
    yield 1
G = g()
Y = list(G)
G = None
""")
effect('contextlib closing', """
import contextlib
class F:
    def close(s):
        decimal.getcontext().prec = @@
with contextlib.closing(F()):
    pass
""")
effect('ExitStack', """
import contextlib
class F:
    def __enter__(s):
        decimal.getcontext().prec = @@
    def __exit__(s, *a):
        pass
with contextlib.ExitStack() as st:
    st.enter_context(F())
""")
effect('suppress', """
import contextlib
def g():
    decimal.getcontext().prec = @@
with contextlib.suppress(ValueError):
    X = g()
""")
effect('numpy vectorize', """
import numpy as np
@np.vectorize
def g(v):
    decimal.getcontext().prec = @@
    return v
X = g([1])
""")
effect('numpy fromfunction', """
import numpy as np
def g(v):
    decimal.getcontext().prec = @@
    return v
X = np.fromfunction(g, (2,))
""")
effect('pandas apply', """
import pandas as pd
def g(v):
    decimal.getcontext().prec = @@
    return v
X = pd.Series([1]).apply(g)
""")
effect('pandas map by name', """
import pandas as pd
def g(v):
    decimal.getcontext().prec = @@
    return v
S = pd.Series([1])
X = S.map(g)
""")
effect('numpy object array', """
import numpy as np
class F:
    def __add__(s, o):
        decimal.getcontext().prec = @@
        return 1
S = np.array([F()], dtype=object)
X = S + 1
""")
effect('attrs instance', """
import attrs
@attrs.define
class C:
    n: int = attrs.field(default=1)
    @n.validator
    def _v(self, a, v):
        decimal.getcontext().prec = @@
X = C()
""")
effect('attrs default factory self', """
import attrs
@attrs.define
class C:
    n: int = attrs.field()
    @n.default
    def _v(self):
        decimal.getcontext().prec = @@
        return 1
X = C()
""")
effect('attrs field transformer', """
import attrs
def t(c, fs):
    decimal.getcontext().prec = @@
    return fs
@attrs.define(field_transformer=t)
class C:
    n: int = 1
""")
effect('attrs init_subclass', """
import attrs
@attrs.define
class B:
    @classmethod
    def __attrs_init_subclass__(cls):
        decimal.getcontext().prec = @@
@attrs.define
class C(B):
    n: int = 1
""")
effect('make_dataclass namespace', """
import dataclasses
def go(s):
    decimal.getcontext().prec = @@
C = dataclasses.make_dataclass('C', ['n'], namespace={'__post_init__': go})
X = C(1)
""")
effect('type() call', """
class B:
    def __init_subclass__(cls):
        decimal.getcontext().prec = @@
X = type('C', (B,), {})
""")
effect('enum functional', """
import enum
class B(enum.Enum):
    def __init__(s, *a):
        decimal.getcontext().prec = @@
X = B('E', 'A C')
""")
effect('namedtuple subclass', """
import collections
class T(collections.namedtuple('T', 'a')):
    __slots__ = ()
    def __new__(cls, a):
        decimal.getcontext().prec = @@
        return super().__new__(cls, a)
X = T(1)
""")
effect('namedtuple replace', """
import collections
class T(collections.namedtuple('T', 'a')):
    @classmethod
    def _make(cls, i):
        decimal.getcontext().prec = @@
        return super()._make(i)
X = T(1)._replace(a=2)
""")
effect('udf called by the app', """
from pyspark.sql import functions as F
def g(c):
    decimal.getcontext().prec = @@
    return 1
class C:
    def __str__(s):
        decimal.getcontext().prec = @@
        return 'a'
X = F.udf
from pyspark.sql.types import StructField, LongType
N = C()
Y = f'{N}'
""")
effect('type of platform with app arg', """
from pyspark.sql.types import StructField, LongType
class Nn(str):
    def __eq__(s, o):
        decimal.getcontext().prec = @@
        return True
    __hash__ = str.__hash__
N = Nn('a')
X = StructField(N, LongType())
Y = X.name == 1
""")
effect('setup redefined later', """
def setup(n):
    decimal.getcontext().prec = n
X = setup(@@)
def setup(n):
    pass
""")
effect('setup called, then del', """
def _setup():
    decimal.getcontext().prec = @@
_setup()
del _setup
""")
effect('value used, then del', """
PREC = @@
decimal.getcontext().prec = PREC
del PREC
""")
effect('value used, then overwritten', """
PREC = @@
decimal.getcontext().prec = PREC
PREC = 7
""")
effect('class used, then del', """
class _S:
    n = @@
decimal.getcontext().prec = _S.n
del _S
""")
effect('loop var leftover overwritten', """
for i in (@@,):
    pass
decimal.getcontext().prec = i
i = 7
""")
effect('sys.path. with effect', """
import sys
def g(n):
    decimal.getcontext().prec = n
    return '/x'
sys.path.append(g(@@))
""")
effect('TYPE_CHECKING true', """
TYPE_CHECKING = True
if TYPE_CHECKING:
    decimal.getcontext().prec = @@
""")
effect('np.apply_along_axis', """
import numpy as np
def g(a):
    decimal.getcontext().prec = @@
    return 1
X = np.apply_along_axis(g, 0, np.array([1]))
""")
effect('np.fromfunction', """
import numpy as np
def g(a):
    decimal.getcontext().prec = @@
    return 1
X = np.fromfunction(g, (1,))
""")
effect('pd.Series.map class fn', """
import pandas as pd
def g(a):
    decimal.getcontext().prec = @@
    return 1
X = pd.Series.map(pd.Series([1]), g)
""")
effect('pd.array/eval', """
import pandas as pd
def g(a):
    decimal.getcontext().prec = @@
    return 1
X = pd.DataFrame({'a': [1]}).pipe(g)
""")
effect('copy.copy hook', """
import copy
class C:
    def __copy__(s):
        decimal.getcontext().prec = @@
        return s
X = copy.copy(C())
""")
effect('json.dumps default', """
import json
def g(o):
    decimal.getcontext().prec = @@
    return 1
X = json.dumps(object(), default=g)
""")
effect('json.loads hook', """
import json
def g(o):
    decimal.getcontext().prec = @@
    return 1
X = json.loads('{}', object_hook=g)
""")
effect('re.sub fn', """
import re
def g(m):
    decimal.getcontext().prec = @@
    return ''
X = re.sub('a', g, 'a')
""")
effect('filter/any/sum', """
def g(m):
    decimal.getcontext().prec = @@
    return True
X = any((g(i) for i in [1]))
Y = any(filter(g, [1]))
""")
effect('any(filter)', """
def g(m):
    decimal.getcontext().prec = @@
    return True
Y = any(filter(g, [1]))
""")
effect('len hook', """
class C:
    def __len__(s):
        decimal.getcontext().prec = @@
        return 1
X = len(C())
""")
effect('getattr hook', """
class C:
    def __getattr__(s, n):
        decimal.getcontext().prec = @@
        return 1
X = getattr(C(), 'z')
""")
effect('isinstance hook', """
class M(type):
    def __instancecheck__(c, o):
        decimal.getcontext().prec = @@
        return True
class C(metaclass=M):
    pass
X = isinstance(1, C)
""")
effect('hash hook dict literal', """
class C:
    def __hash__(s):
        decimal.getcontext().prec = @@
        return 1
X = {C(): 1}
""")
effect('hash hook set', """
class C:
    def __hash__(s):
        decimal.getcontext().prec = @@
        return 1
X = {C()}
""")
effect('star unpack hook', """
class C:
    def keys(s):
        decimal.getcontext().prec = @@
        return []
    def __getitem__(s, k):
        return 1
X = {**C()}
""")
effect('del hook', """
class C:
    def __del__(s):
        decimal.getcontext().prec = @@
X = C()
X = None
""")
effect('types.new_class exec_body', """
import types
def g(ns):
    decimal.getcontext().prec = @@
X = types.new_class('X', (), {}, g)
""")
effect('dataclasses.make_dataclass hook', """
import dataclasses
class B:
    def __init_subclass__(c):
        decimal.getcontext().prec = @@
X = dataclasses.make_dataclass('X', [], bases=(B,))
""")
effect('typing.NamedTuple default call', """
import typing
def g():
    decimal.getcontext().prec = @@
    return 1
class T(typing.NamedTuple):
    a: int = g()
""")
effect('dataclass field descriptor default', """
import dataclasses
class Dd:
    def __get__(s, i, o):
        decimal.getcontext().prec = @@
        return 1
    def __set__(s, i, v):
        pass
@dataclasses.dataclass
class C:
    a: int = Dd()
""")
effect('annotation evaluated', """
def g():
    decimal.getcontext().prec = @@
    return int
X: g() = 1
""")
effect('annotation of function evaluated', """
def g():
    decimal.getcontext().prec = @@
    return int
def h(a: g()):
    pass
""")
effect('annotation in class evaluated', """
def g():
    decimal.getcontext().prec = @@
    return int
class C:
    a: g()
""")
effect('return annotation evaluated', """
def g():
    decimal.getcontext().prec = @@
    return int
def h() -> g():
    pass
""")
effect('base class call', """
def g():
    decimal.getcontext().prec = @@
    return object
class C(g()):
    pass
""")
effect('functools.wraps assigned', """
import functools
def deco(h):
    decimal.getcontext().prec = @@
    return h
@functools.wraps(len)
@deco
def g():
    pass
""")
effect('threading.Timer', """
import threading
X = threading.local
class Z(X):
    def __init__(s):
        decimal.getcontext().prec = @@
Y = Z()
""")
effect('str.format hook', """
class C:
    def __format__(s, p):
        decimal.getcontext().prec = @@
        return ''
X = '{}'.format(C())
""")
effect('percent hook', """
class C:
    def __str__(s):
        decimal.getcontext().prec = @@
        return ''
X = '%s' % C()
""")
effect('assert hook', """
class C:
    def __bool__(s):
        decimal.getcontext().prec = @@
        return True
assert C()
""")
effect('with open hook name', """
class P:
    def open(s):
        decimal.getcontext().prec = @@
        return open(__file__)
with P().open() as h:
    pass
""")
effect('import inside a function called', """
def load():
    import plugin
    return 1
X = load()
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import inside a class body', """
class C:
    import plugin
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
module('alias of a context param', """
import json
def patch(m):
    m.JSONEncoder.item_separator = '@@'
    return m
J = patch(json)
def f(x):
    return json.JSONEncoder().encode([1, 2])
""")
module('alias local DefaultContext', """
import decimal
def setup():
    ctx = decimal.DefaultContext
    ctx.prec = @@
    return ctx
X = setup()
def f(x):
    decimal.setcontext(decimal.DefaultContext)
    return decimal.Decimal(1) / 7
""")
module('class body alias', """
import decimal
class C:
    ctx = decimal.DefaultContext
    ctx.prec = @@
def f(x):
    decimal.setcontext(decimal.DefaultContext)
    return decimal.Decimal(1) / 7
""")
effect('module __getattr__', """
import other
X = other.thing
""", {'other.py': """
import decimal
def __getattr__(n):
    decimal.getcontext().prec = @@
    return 1
"""})
effect('from other import via getattr', """
from other import thing
""", {'other.py': """
import decimal
def __getattr__(n):
    if n != 'thing':
        raise AttributeError(n)
    decimal.getcontext().prec = @@
    return 1
"""})
module('walrus', """
import decimal
if (c := decimal.DefaultContext):
    c.prec = @@
def f(x):
    decimal.setcontext(decimal.DefaultContext)
    return decimal.Decimal(1) / 7
""")
module('base init of Python', """
import decimal
import threading
class C(threading.Thread):
    def run(self):
        decimal.DefaultContext.prec = @@
def go():
    c = C()
    c.start()
    c.join()
    return 1
X = go()
def f(x):
    decimal.setcontext(decimal.DefaultContext)
    return decimal.Decimal(1) / 7
""")
module('thread target', """
import decimal
import threading
def g():
    decimal.DefaultContext.prec = @@
def go():
    c = threading.Thread(target=g)
    c.start()
    c.join()
    return 1
X = go()
def f(x):
    decimal.setcontext(decimal.DefaultContext)
    return decimal.Decimal(1) / 7
""")
module('os.environ update via local', """
import os
def go(e):
    e['SETTING_Z'] = '@@'
    return e
E = go(os.environ)
def f(x):
    return os.environ['SETTING_Z']
""")
module('os.environ |=', """
import os
E = os.environ
E |= {'SETTING_Z': '@@'}
def f(x):
    return os.environ['SETTING_Z']
""")
module('pandas holiday calendar by name', """
import pandas as pd
from pandas.tseries.holiday import AbstractHolidayCalendar, Holiday, get_calendar
class Mine(AbstractHolidayCalendar):
    rules = [Holiday('a', month=@@, day=1)]
def f(x):
    return [str(d) for d in get_calendar('Mine').holidays('2026-01-01', '2026-12-31')]
""")
module('numpy mtrand state local', """
import numpy as np
def go(r):
    r.seed(@@)
    return 1
X = go(np.random)
def f(x):
    return float(np.random.rand())
""")
module('pandas option local', """
import pandas as pd
def go(o):
    o.precision = @@
    return o
X = go(pd.options.display)
def f(x):
    return str(pd.Series([1.23456789]))
""")
module('a named tuple: helpers class', """
import typing
class T(typing.NamedTuple):
    a: int = @@
    b: int = 2
def f(x):
    return T(b=1)
""")
module('a named tuple: helpers functional', """
import collections
T = collections.namedtuple('T', 'a b')
def f(x):
    return T(1, @@)
""")
module('a named tuple: helper value', """
import collections
T = collections.namedtuple('T', 'a b')
V = T(1, @@)
def f(x):
    return (V.a, V.b)
""")
module('a named tuple: swapped oneline', """
import typing
class T(typing.NamedTuple):
    @@
def f(x):
    return tuple(T(a=1, b=2))
""", {}, 'a:int; b:int', 'b:int; a:int')
module('a named tuple: swapped multi', """
import typing
class T(typing.NamedTuple):
    a: int
    b: int
def f(x):
    return tuple(T(a=1, b=@@))
""")
module('a named tuple: nested', """
import typing
class T(typing.NamedTuple):
    a: int
    b: int
    def total(self):
        return self.a + self.b * @@
def f(x):
    return T(1, 2).total()
""")
effect("other module's function", """
import other
X = other.setup()
""", {'other.py': """
import decimal
def setup():
    return inner()
def inner():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect("other module's function by from", """
from other import setup as s
X = s()
""", {'other.py': """
import decimal
def setup():
    return inner()
def inner():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('through a star', """
from other import *
X = setup()
""", {'other.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('through two stars', """
from other import *
X = setup()
""", {'other.py': """
from third import *
""", 'third.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('through a package', """
import pkg
X = pkg.setup()
""", {'pkg/__init__.py': """
from .deep import setup
""", 'pkg/deep.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect("through a package's module", """
import pkg.deep
X = pkg.deep.setup()
""", {'pkg/__init__.py': '', 'pkg/deep.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('through a module as an argument', """
import other
def go(m):
    return m.setup()
X = go(other)
""", {'other.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('lazy in a method', """
class L:
    def get(self):
        from other import setup
        return setup()
X = L().get()
""", {'other.py': """
import decimal
def setup():
    C().run()
    return 1
class C:
    def run(self):
        decimal.getcontext().prec = @@
"""})
effect('lazy import, an effect of what that imports', """
class L:
    def get(self):
        import other
        return 1
X = L().get()
""", {'other.py': """
import third
""", 'third.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect("lazy package's init", """
class L:
    def get(self):
        import pkg.a
        return 1
X = L().get()
""", {'pkg/__init__.py': """
import decimal
decimal.getcontext().prec = @@
""", 'pkg/a.py': ''})
effect('lazy relative', """
import pkg.b
""", {'pkg/__init__.py': '', 'pkg/a.py': """
import decimal
decimal.getcontext().prec = @@
""", 'pkg/b.py': """
class L:
    def get(self):
        from . import a
        return 1
X = L().get()
"""})
effect('class body in if imports', """
if True:
    class C:
        import plugin
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('nested class body imports', """
class C:
    class E:
        if True:
            import plugin
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import by name in a method', """
import importlib
class L:
    def get(self):
        importlib.import_module('plugin')
        return 1
X = L().get()
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('__import__', """
class L:
    def get(self):
        __import__('plugin')
        return 1
X = L().get()
""", {'plugin.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect("module's getattr lazily imports", """
from other import thing
""", {'other.py': """
def __getattr__(n):
    if n != 'thing':
        raise AttributeError(n)
    import plugin
    return plugin.thing
""", 'plugin.py': """
import decimal
thing = 1
decimal.getcontext().prec = @@
"""})
effect('init calls inherited', """
from other import Base
class C(Base):
    def __init__(self):
        self.get()
X = C()
""", {'other.py': """
import decimal
class Base:
    def get(self):
        decimal.getcontext().prec = @@
"""})
effect('import used, then del', """
import conf
decimal.getcontext().prec = conf.N
del conf
""", {'conf.py': """
N = @@
"""})
effect('from import used, then del', """
from conf import N
decimal.getcontext().prec = N
del N
""", {'conf.py': """
N = @@
"""})
effect('star with __all__ of submodules', """
from pkg import *
""", {'pkg/__init__.py': """
__all__ = ['fx']
""", 'pkg/fx.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('star of module', """
from other import *
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('relative star', """
import pkg
""", {'pkg/__init__.py': """
from .fx import *
""", 'pkg/fx.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import as', """
import pkg.fx as q
""", {'pkg/__init__.py': '', 'pkg/fx.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import in match', """
match 1:
    case 1:
        import other
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import in while/with/try', """
try:
    pass
finally:
    import other
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import in except', """
try:
    import nothing_there
except ImportError:
    import other
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import_module const', """
import importlib
importlib.import_module('other')
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('__import__ const', """
__import__('other')
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import via lambda default', """
g = lambda x=__import__('other'): x
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
effect('import chain of 3', """
import a1
""", {'a1.py': """
import a2
""", 'a2.py': """
import a3
""", 'a3.py': """
import decimal
decimal.getcontext().prec = @@
"""})
module("import inside reached function's callee", """
import decimal
def g():
    import other
    return 1
def f(x):
    g()
    return decimal.Decimal(1) / 7
""", {'other.py': """
import decimal
decimal.getcontext().prec = @@
"""})
module('import of effect order', """
import decimal
import @@
def f(x):
    return decimal.Decimal(1) / 7
""", {'e1.py': """
import decimal
decimal.getcontext().prec = 3
""", 'e2.py': """
import decimal
decimal.getcontext().prec = 5
"""}, 'e1,e2', 'e2,e1')
module('effect order in module', """
import decimal
@@
def f(x):
    return decimal.Decimal(1) / 7
""", {},
 'decimal.getcontext().prec=3\ndecimal.getcontext().prec=5', 'decimal.getcontext().prec=5\ndecimal.getcontext().prec=3')
module('effect order of import vs statement', """
import decimal
@@
def f(x):
    return decimal.Decimal(1) / 7
""", {'e1.py': """
import decimal
decimal.getcontext().prec = 3
"""}, 'import e1\ndecimal.getcontext().prec=5', 'decimal.getcontext().prec=5\nimport e1')
module('effect order of import vs statement, from', """
import decimal
@@
def f(x):
    return decimal.Decimal(1) / 7
""", {'e1.py': """
import decimal
decimal.getcontext().prec = 3
z = 1
"""}, 'from e1 import z\ndecimal.getcontext().prec=5', 'decimal.getcontext().prec=5\nfrom e1 import z')
module('lazy import order in function', """
import decimal
def f(x):
    @@
    return decimal.Decimal(1) / 7
""", {'e1.py': """
import decimal
decimal.getcontext().prec = 3
""", 'e2.py': """
import decimal
decimal.getcontext().prec = 5
"""}, 'import e1,e2', 'import e2,e1')
module('global stmt in fn', """
import decimal
N = 0
def g():
    global N
    N = @@
g()
def f(x):
    return N
""")
module('nonlocal', """
import decimal
def mk():
    n = 1
    def s():
        nonlocal n
        n = @@
    s()
    return lambda x: n
f_ = mk()
def f(x):
    return f_(x)
""")
# fmt: on
