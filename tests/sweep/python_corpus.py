"""Sample functions for the sweep over Python code: each an app of a few files, with inputs to try it on.

`app.py` is what Spark runs as ``__main__``; `f` in it is the function. The rest are modules and packages beside it.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Sample:
    """inputs: argument lists as Python texts"""

    name: str
    files: dict[str, str]
    inputs: tuple[str, ...]


NUMBERS = ("0", "1", "3", "-2", "10")
PAIRS = ("1, 2", "0, 5", "7, 7", "-3, 4")
TEXTS = ("'abc'", "''", "'Hello, World'", "'a1b22'")

SAMPLES: list[Sample] = []


def sample(name: str, inputs: tuple[str, ...], app: str, **modules: str) -> None:
    """modules: sources by dotted name, dots written as two underscores; a package's own as ``pkg____init__``"""
    files = {name.replace("__", "/", 1) + ".py": source for name, source in modules.items()}
    SAMPLES.append(Sample(name, {"app.py": app, **files}, inputs))


# fmt: off
sample("arithmetic", NUMBERS, """
def f(x):
    "Doc."
    y = x * 3 + 7
    if y > 10 and x != 3:
        y -= 2
    return y // 2 - (x % 4)
""")
sample("branches and loops", NUMBERS, """
def f(n):
    total = 0
    for i in range(n + 2):
        if i == 2:
            continue
        if i > 6:
            break
        total += i * 2
    while total > 20:
        total -= 7
    return total if n >= 1 else -total
""")
sample("default arguments", PAIRS, """
STEP = 4
def f(a, b=3, /, c=STEP, *rest, scale=2, **more):
    return (a - b) * scale + c
""")
sample("keyword defaults of a helper", NUMBERS, """
def scaled(x, *, by=3, offset=1):
    return x * by + offset
def f(x):
    return scaled(x) - scaled(x, offset=5) * scaled(x, by=2)
""")
sample("closure", NUMBERS, """
def make(factor, names):
    count = len(names)
    def inner(x):
        return x * factor + count + names["b"]
    return inner
f = make(3, {"a": 1, "b": 2})
""")
sample("nonlocal counter", NUMBERS, """
def make():
    seen = 5
    def inner(x):
        nonlocal seen
        seen += x
        return seen
    def outer(x):
        return inner(x) * 2 - seen
    return outer
f = make()
""")
sample("globals", NUMBERS, """
LIMIT = 4
RATES = {"low": 0.5, "high": 2.5}
def f(x):
    return x * RATES["high"] if x > LIMIT else x * RATES["low"]
""")
sample("order of a dict and of lists", TEXTS, """
RULES = {"a": 1, "l": 2, "b": 3, "H": 4}
ORDER = [("x", ["c", "a"]), ("y", ["b", "l"])]
def f(text):
    letters = [(name, c) for name, letters in ORDER for c in letters if c in text]
    for key, value in RULES.items():
        if key in text:
            return key, value, letters
    return letters
""")
sample("sets", TEXTS, """
VOWELS = {"a", "e", "i"}
MIXED = frozenset([1, "a", (2, "b"), None])
def f(text):
    return sorted(c for c in text if c in VOWELS or c in {"l", "o"}), text[:1] in MIXED, len(MIXED)
""")
sample("imported helper", NUMBERS, """
from helpers import double, LIMIT as MOST
import helpers
def f(x):
    return min(double(x), MOST) + helpers.shift(x)
""", helpers="""
LIMIT = 5
OFFSET = 2
def double(x):
    return 2 * x
def shift(x):
    return x - OFFSET
def unused(x):
    return x
""")
sample("lazy dotted import", NUMBERS, """
def f(x):
    import pkg.deep
    import pkg.rates as rates
    return pkg.deep.scale(x) + rates.RATE
""", pkg____init__="NAME = 'pkg'\n", pkg__deep="""
def scale(x):
    return x * 4 - 1
""", pkg__rates="RATE = 2.5\n")
sample("relative import inside", NUMBERS, """
from pkg.deep import scale
def f(x):
    return scale(x)
""", pkg____init__="", pkg__deep="""
def scale(x):
    from .rates import RATE
    from . import rates
    return x * RATE - rates.LESS
""", pkg__rates="RATE = 3\nLESS = 1\n")
sample("module in a local variable", NUMBERS, """
def f(x):
    import helpers
    tools = helpers
    def inner(y):
        return helpers.grow(y) - tools.shrink(y)
    return inner(x)
""", helpers="""
def grow(x):
    return x + 6
def shrink(x):
    return x - 2
""")
sample("package with __getattr__", NUMBERS, """
import pkg
def f(x):
    return pkg.scale(x) + pkg.extra
""", pkg____init__="""
import importlib
_BONUS = 4
def __getattr__(name):
    if name == "scale":
        return importlib.import_module("pkg." + "deep").scale
    if name == "extra":
        return _BONUS + 1
    raise AttributeError(name)
""", pkg__deep="""
def scale(x):
    return x * 4
""")
sample("what an import does", ("'1.23456'", "'2.5'", "'0'"), """
from helpers import rounded
def f(text):
    return str(rounded(text))
""", helpers="""
import decimal
import settings
PRECISION = 4
decimal.getcontext().prec = PRECISION
def rounded(text):
    return decimal.Decimal(text) / 3
""", settings="""
import decimal
decimal.getcontext().rounding = "ROUND_UP"
""")
sample("functools.cache", NUMBERS, """
import functools
from helpers import slow
@functools.lru_cache(maxsize=16)
def quick(x):
    return x * 5 + 1
def f(x):
    return quick(x) + slow(x)
""", helpers="""
import functools
@functools.cache
def slow(x):
    return x - 4
""")
sample("wrapped by a decorator", NUMBERS, """
import functools
def times(n, plus=0):
    def decorate(inner):
        @functools.wraps(inner)
        def wrapper(x):
            return inner(x) * n + plus
        return wrapper
    return decorate
def shift(inner):
    @functools.wraps(inner)
    def wrapper(x):
        return inner(x + 1)
    return wrapper
@times(3, plus=2)
@shift
def f(x):
    return x - 1
""")
sample("partial and reduce", NUMBERS, """
import functools, operator
def power(base, exponent, offset=0):
    return base ** exponent + offset
square = functools.partial(power, exponent=2, offset=1)
def f(x):
    return functools.reduce(operator.add, [square(x), power(2, 3), x], 10)
""")
sample("singledispatch", ("1", "'a'", "2.5", "[1, 2]"), """
from helpers import show
def f(x):
    return show(x)
""", helpers="""
import functools
@functools.singledispatch
def show(x):
    return "other", x
@show.register(int)
def _(x):
    return "int", x + 1
@show.register(str)
def _(x):
    return "str", x * 2
""")
sample("partialmethod and cached_property", NUMBERS, """
from helpers import scale
def f(x):
    return scale.lifted(x) + scale.doubled + scale.kind(x)
""", helpers="""
import functools
class Scale:
    def __init__(self, by):
        self.by = by
    def apply(self, x, plus=0):
        return x * self.by + plus
    lifted = functools.partialmethod(apply, plus=9)
    @functools.cached_property
    def doubled(self):
        return self.by * 2
    @functools.singledispatchmethod
    def kind(self, x):
        return 1
    @kind.register(int)
    def _(self, x):
        return 2 + self.by
scale = Scale(3)
""")
sample("class with inheritance", NUMBERS, """
class Base:
    step = 1
    def add(self, x):
        return x + self.step
class Middle(Base):
    step = 2
    def add(self, x):
        return super().add(x) * 2
class Count(Middle):
    def __init__(self, start):
        self.start = start
    def __call__(self, x):
        return self.add(self.start) + x
    @property
    def half(self):
        return self.start / 2
    @staticmethod
    def one():
        return 1
    @classmethod
    def two(cls):
        return cls.step + 2
counter = Count(7)
def f(x):
    return counter(x) + counter.half + Count.one() + Count.two()
""")
sample("class of another module", NUMBERS, """
from helpers import Child
def f(x):
    return Child(x).value() + Child.LIMIT
""", helpers="""
from basis import Parent
class Child(Parent):
    LIMIT = 3
    def value(self):
        return self.base() + 1
""", basis="""
class Parent:
    def __init__(self, x):
        self.x = x
    def base(self):
        return self.x * 2
""")
sample("subclass of dict", TEXTS, """
class Counts(dict):
    weight = 2
    def __missing__(self, key):
        return self.weight * 3
    def total(self):
        return sum(self.values()) * self.scale
counts = Counts(a=1, b=2)
counts.scale = 5
def f(text):
    return [counts[c] for c in text], counts.total(), list(counts)
""")
sample("subclasses of list, str, tuple, int", NUMBERS, """
class Row(list):
    def total(self):
        return sum(self) + self.extra
class Name(str):
    def loud(self):
        return self.upper() + "!"
class Pair(tuple):
    def first(self):
        return self[0] - 1
class Cents(int):
    def euros(self):
        return self / 100
row = Row([1, 2, 3]); row.extra = 4
name = Name("ab"); pair = Pair((5, 6)); price = Cents(250)
def f(x):
    return row.total() + x, name.loud(), pair.first(), price.euros()
""")
sample("subclass of set", TEXTS, """
class Letters(set):
    plus = "z"
    def has(self, c):
        return c in self or c == self.plus
letters = Letters("ab1"); letters.note = "n"
def f(text):
    return [letters.has(c) for c in text], letters.note
""")
sample("__hash__, __eq__ and __match_args__", PAIRS, """
class Point:
    __match_args__ = ("x", "y")
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __eq__(self, other):
        return self.x == other.x
    def __hash__(self):
        return hash(self.x)
def f(a, b):
    found = len({Point(a, 1), Point(a, 2), Point(b, 3)})
    match Point(a, b):
        case Point(1, second):
            return "one", second, found
        case Point(first, 5):
            return "five", first, found
        case Point(first, second) if first > second:
            return "more", first, found
        case _:
            return "else", found
""")
sample("function attributes", NUMBERS, """
def scale(x):
    return x * scale.by
scale.by = 4
scale.names = {"a": 1}
def f(x):
    f.calls = getattr(f, "calls", 0) + 1
    return scale(x) + scale.names["a"]
""")
sample("slots and descriptors", NUMBERS, """
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, instance, owner=None):
        return getattr(instance, self.name) * 2
    def __set__(self, instance, value):
        setattr(instance, self.name, max(value, 0))
class Box:
    __slots__ = ("_size", "label")
    size = Positive()
    def __init__(self, size, label="x"):
        self.size = size
        self.label = label
kept = Box(3)
def f(x):
    return Box(x).size + kept.size, kept.label
""")
sample("metaclass and __init_subclass__", NUMBERS, """
class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.extra = cls.bonus + 1
        return made
class Base(metaclass=Meta):
    bonus = 2
    registry = {}
    def __init_subclass__(cls, weight=1, **kw):
        super().__init_subclass__(**kw)
        Base.registry[cls.__name__] = weight
class One(Base, weight=5):
    bonus = 3
def f(x):
    return One().extra + x + Base.registry["One"]
""")
sample("dataclass of another module", NUMBERS, """
from shapes import Shape, DEFAULT
def f(x):
    return repr(Shape(x)), Shape(x) == DEFAULT, DEFAULT.area()
""", shapes="""
from dataclasses import dataclass, InitVar
from typing import ClassVar
@dataclass
class Shape:
    width: int
    height: int = 2
    double: InitVar[bool] = False
    sides: ClassVar[int] = 4
    def __post_init__(self, double):
        if double:
            self.width *= 2
    def area(self):
        return self.width * self.height + self.sides
DEFAULT = Shape(3, double=True)
""")
sample("attrs", NUMBERS, """
import attrs
@attrs.define
class Reading:
    value: int = attrs.field(converter=lambda v: v + 1)
    unit: str = "m"
    parts: list = attrs.field(factory=lambda: [1])
    @value.validator
    def _check(self, attribute, value):
        if value > 10:
            raise ValueError("too much")
    def scaled(self):
        return self.value * 3
@attrs.frozen(order=True)
class Fixed:
    low: int = 2
kept = Fixed(5)
def f(x):
    return repr(Reading(x)), Reading(x).scaled(), kept < Fixed(x), hash(kept) == hash(Fixed(5))
""")
sample("enum", ("'red'", "'blue'", "'none'"), """
import enum
class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"
    CRIMSON = "red"
    def loud(self):
        return self.value.upper() + str(len(Color))
    @classmethod
    def _missing_(cls, value):
        return cls.BLUE
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5
class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()
best = Color.RED
def f(text):
    return Color(text).loud(), best.name, [m.name for m in Color], Level.HIGH + 1, (Bits.A | Bits.B).value
""")
sample("enum of another module", NUMBERS, """
from colors import Planet
def f(x):
    return Planet.EARTH.weight(x), [p.name for p in Planet]
""", colors="""
import enum
class Planet(enum.Enum):
    EARTH = (5, 6)
    MARS = (3, 4)
    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius
    def weight(self, x):
        return x * self.mass / self.radius
""")
sample("named tuples", NUMBERS, """
from collections import namedtuple
from typing import NamedTuple
Point = namedtuple("Point", "x y", defaults=[3])
class Named(NamedTuple):
    low: int
    high: int = 9
    def span(self):
        return self.high - self.low
origin = Point(1)
def f(x):
    return origin.y + x, Point(x), Named(x).span(), Named(x)._asdict()
""")
sample("generators and comprehensions", NUMBERS, """
def numbers(n):
    for i in range(n):
        got = yield i * 2
        if i > 3:
            return
    yield -1
def f(n):
    pairs = {k: v for k, v in zip("abc", numbers(abs(n))) if v != 2}
    return list(numbers(n)), pairs, sum(x + 1 for x in range(n)), {i % 3 for i in range(n)}
""")
sample("exceptions", NUMBERS, """
class Bad(ValueError):
    code = 4
    def __init__(self, text, more=1):
        super().__init__(text)
        self.more = more
def check(x):
    if x > 5:
        raise Bad("much", more=3)
    if x < 0:
        raise KeyError("less")
    return 10 / x
def f(x):
    try:
        return check(x)
    except Bad as e:
        return str(e), e.code, e.more
    except (KeyError, IndexError):
        return "key"
    except ZeroDivisionError:
        return "zero"
    finally:
        x += 1
""")
sample("with and context managers", NUMBERS, """
import contextlib
log = []
@contextlib.contextmanager
def noted(name, mark="+"):
    log.append(name + mark)
    try:
        yield len(log)
    finally:
        log.append("end")
class Quiet:
    def __enter__(self):
        return 3
    def __exit__(self, kind, e, tb):
        return kind is ZeroDivisionError
def f(x):
    del log[:]
    with noted("a") as n, Quiet() as q:
        log.append(n + q + 10 / x)
    return list(log)
""")
sample("values of the standard library", NUMBERS, """
import datetime, decimal, fractions, uuid, pathlib, collections, ipaddress, zoneinfo
DAY = datetime.date(2024, 2, 28)
STEP = datetime.timedelta(days=1, hours=3)
MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
PRICE = decimal.Decimal("1.10")
PART = fractions.Fraction(1, 3)
ID = uuid.UUID(int=5)
PATH = pathlib.PurePosixPath("/data") / "in"
QUEUE = collections.deque([1, 2, 3], maxlen=4)
ORDER = collections.OrderedDict([("a", 1), ("b", 2)])
MANY = collections.defaultdict(lambda: 7, x=1)
COUNTER = collections.Counter("aab")
NET = ipaddress.ip_network("10.0.0.0/8")
SPAN = range(2, 9, 3)
CUT = slice(1, 3)
RAW = bytearray(b"abc")
def f(x):
    moved = str(DAY + STEP * x), str(MOMENT + STEP), str(PRICE * x), str(PART + x), str(ID), str(PATH / "b")
    return moved, list(QUEUE), list(ORDER), MANY["y"], COUNTER["a"], str(NET), list(SPAN), "abcd"[CUT], bytes(RAW)
""")
sample("operator objects", ("{'a': 1, 'b': 2}", "{'a': 5, 'b': 0}"), """
import operator, itertools
GET = operator.itemgetter("a")
BOTH = operator.itemgetter("b", "a")
UP = operator.methodcaller("replace", "a", "b")
COUNT = itertools.count(3, 2)
def f(row):
    return GET(row), BOTH(row), UP("banana"), operator.mul(row["a"], 3)
""")
sample("recursive structures", NUMBERS, """
TREE = {"value": 1, "children": [{"value": 2, "children": []}, {"value": 3, "children": []}]}
TREE["children"][0]["parent"] = TREE
class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next
head = Node(1, Node(2)); head.next.next = head
def even(n):
    return n == 0 or odd(n - 1)
def odd(n):
    return n != 0 and even(n - 1)
def f(x):
    return even(abs(x)), TREE["children"][0]["parent"]["value"] + x, head.next.next.value + head.next.value
""")
sample("async", NUMBERS, """
import asyncio
async def step(x):
    await asyncio.sleep(0)
    return x * 2
async def steps(n):
    for i in range(n):
        yield i + 1
async def whole(x):
    return await step(x) + sum([i async for i in steps(3)])
def f(x):
    return asyncio.run(whole(x))
""")
sample("class made in a function", NUMBERS, """
def make(base):
    class Adder:
        "Adds."
        amount = base + 1
        def __init__(self, x: int) -> None:
            self.x = x
        def result(self):
            return self.x + self.amount + base
    return Adder
Made = make(4)
def f(x):
    class Local:
        rate = x * 2
        def get(self):
            return self.rate
    return Made(x).result() + Local().get()
""")
sample("make_dataclass and type()", NUMBERS, """
import dataclasses
P = dataclasses.make_dataclass("P", [("a", int), ("b", int, 5)], namespace={"sum": lambda self: self.a + self.b})
Q = type("Q", (), {"scale": 3, "get": lambda self, x: x * self.scale})
def f(x):
    return P(x).sum() + Q().get(x)
""")
sample("abc, Protocol, Generic", NUMBERS, """
import abc
from typing import Generic, Protocol, TypeVar
T = TypeVar("T")
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
    def twice(self):
        return self.area() * 2
class Square(Shape, Generic[T]):
    def __init__(self, side):
        self.side = side
    def area(self):
        return self.side ** 2
class HasArea(Protocol):
    def area(self) -> int: ...
def f(x):
    return Square[int](x).twice()
""")
sample("numpy", ("[1.0, 2.0, 3.0]", "[0.0, -1.0, 5.0]"), """
import numpy as np
WEIGHTS = np.array([0.5, 1.5, 2.0])
NAMES = np.array(["a", "b"], dtype=object)
KIND = np.dtype("float32")
def f(values):
    x = np.asarray(values, dtype=KIND)
    return float(np.dot(x, WEIGHTS)), NAMES.tolist(), float(np.clip(x, 0, 2).sum())
""")
sample("pandas", ("[1, 2, 3, 4]", "[4, 4, 1]"), """
import pandas as pd
LOOKUP = pd.DataFrame({"k": [1, 2, 4], "v": ["x", "y", "z"]})
BONUS = pd.Series([10, 20], index=["x", "z"])
def f(values):
    df = pd.DataFrame({"k": values}).merge(LOOKUP, on="k", how="left")
    df["b"] = df["v"].map(BONUS).fillna(1)
    return df["b"].tolist(), df.groupby("k")["b"].sum().to_dict()
""")
sample("memo and state of an instance", NUMBERS, """
from helpers import engine
def f(x):
    return engine.run(x)
""", helpers="""
class Engine:
    def __init__(self, rules, default=0):
        self.rules = rules
        self.default = default
    def __getstate__(self):
        return {}
    def run(self, x):
        return [rule(x) for rule in self.rules] or self.default
engine = Engine([lambda x: x + 1, lambda x: x * 2], default=8)
engine.rules.append(abs)
""")
sample("registry filled by decorators", ("'a', 1", "'b', 2", "'c', 3"), """
from registry import RULES
import rules
def f(name, x):
    rules.ready()
    return RULES[name](x) if name in RULES else None
""", registry="""
RULES = {}
def rule(name, twice=False):
    def add(inner):
        RULES[name] = (lambda x: inner(inner(x))) if twice else inner
        return inner
    return add
""", rules="""
from registry import rule
def ready():
    pass
@rule("a")
def first(x):
    return x + 1
@rule("b", twice=True)
def second(x):
    return x * 3
""")
# fmt: on
