"""Ordinary statements of a module, as apps have them, which do nothing on import but to give values to names.

What stands for ``@@`` is nothing that the function of the module below them reaches.
"""

from __future__ import annotations

ORDINARY: dict[str, str] = {}
OTHER = """
LIMIT = 5
def g(x): return x
class Base:
    n = 1
    def m(self): return self.n
"""


def ordinary(name: str, source: str) -> None:
    ORDINARY[name] = source


# fmt: off
ordinary('a number', """
LIMIT = @@
""")
ordinary('a product of constants', """
DAY = 24 * 3600 * @@
""")
ordinary('a text', """
NAME = 'table_@@'
""")
ordinary('a formatted text', """
V = @@
NAME = f'table_{V:03d}'
""")
ordinary('a hint', """
LIMIT: int = @@
""")
ordinary('a dict', """
RATES = {'a': @@, 'b': [1, 2]}
""")
ordinary('dicts of dicts', """
A = {'a': @@}
B = {**A, 'c': 1}
C = B['a'] + 1
D = B.get('b', 2)
""")
ordinary('a set', """
CODES = frozenset({'a', 'b@@'})
""")
ordinary('a list of names', """
__all__ = ['f', 'g@@']
""")
ordinary('a list that grows', """
__all__ = ['f']
__all__ += ['g@@']
""")
ordinary('unpacking', """
LOW, HIGH = (@@, 9)
""")
ordinary('a slice', """
ALL = [1, 2, 3, @@]
SOME = ALL[1:]
LAST = ALL[-1]
""")
ordinary('a comprehension', """
SQUARES = [i * i for i in range(@@)]
""")
ordinary('a dict comprehension', """
CODES = {'a': 1}
BACK = {v: k * @@ for k, v in CODES.items()}
""")
ordinary('a condition', """
import sys
if sys.version_info >= (3, 8):
    LIMIT = @@
else:
    LIMIT = 2
""")
ordinary('a condition in an expression', """
import sys
SEP = ';' * @@ if sys.platform == 'win32' else ':'
""")
ordinary('a function', """
def g(x):
    return x * @@
""")
ordinary('a function with defaults and hints', """
from typing import Optional
def g(x: int, by: Optional[list[int]]=None, n: float=@@) -> dict[str, int]:
    return x
""")
ordinary('an async function', """
async def g(x):
    return x * @@
""")
ordinary('a lambda', """
g = lambda x, n=2: x * @@
""")
ordinary('a generator', """
def g():
    yield @@
""")
ordinary('a union of hints', """
class Order:
    pass
def g(x: Order | None=None) -> 'Order':
    return @@
""")
ordinary('a logger', """
import logging
log = logging.getLogger(__name__)
logger = logging.getLogger('app@@')
""")
ordinary("a logger of the app's", """
import logging
log = logging.getLogger(__name__).getChild('part@@')
""")
ordinary('a pattern', """
import re
PATTERN = re.compile('^[a-z]{@@}$', re.IGNORECASE | re.DOTALL)
""")
ordinary("a pattern's method", """
import re
FIND = re.compile('a{@@}').search
""")
ordinary('the environment', """
import os
LIMIT = int(os.environ.get('LIMIT_X', @@))
""")
ordinary('getenv', """
import os
MODE = os.getenv('MODE_X', 'a@@').lower().strip()
""")
ordinary('a switch', """
import os
DEBUG = os.environ.get('DEBUG_X', '@@') in ('1', 'true')
""")
ordinary('a path', """
from pathlib import Path
HERE = Path(__file__).resolve().parent
DATA = HERE / 'data' / 'a@@.csv'
""")
ordinary('os.path', """
import os
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, 'a@@.csv')
""")
ordinary('sys.path', """
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
LIMIT = @@
""")
ordinary('dates', """
import datetime as dt
START = dt.datetime(2026, 1, @@, tzinfo=dt.timezone.utc)
STEP = dt.timedelta(hours=1) * 2
""")
ordinary('a zone', """
from zoneinfo import ZoneInfo
ZONE = ZoneInfo('Europe/Berlin' if @@ == 3 else 'Asia/Tokyo')
""")
ordinary('decimals', """
from decimal import Decimal
RATE = Decimal('1.@@') + Decimal(1)
""")
ordinary('json', """
import json
DATA = json.loads('{"a": @@}')
FIRST = DATA['a']
""")
ordinary('a file', """
import json
with open(__file__) as file:
    TEXT = file.read()
LIMIT = len('@@')
""")
ordinary('collections', """
import collections
C = collections.Counter('aab@@')
D = collections.defaultdict(list, a=[@@])
Q = collections.deque([@@], maxlen=4)
O = collections.OrderedDict(a=1)
""")
ordinary('a named tuple', """
import collections
Point = collections.namedtuple('Point', 'x y@@')
P = Point(1, 2)
""")
ordinary('a NamedTuple', """
from typing import NamedTuple
class Point(NamedTuple):
    x: int
    y: int = @@
    def sum(self):
        return self.x
ORIGIN = Point(0, @@)
""")
ordinary('a TypedDict', """
from typing import TypedDict
class Row(TypedDict, total=False):
    a@@: int
""")
ordinary('type variables', """
from typing import Any, Callable, Generic, TypeVar, Union
T = TypeVar('T', bound='Order@@')
Step = Callable[[int], Union[str, None]]
class Box(Generic[T]):
    n = @@
IntBox = Box[int]
""")
ordinary('a Protocol', """
from typing import Protocol, runtime_checkable
@runtime_checkable
class HasArea(Protocol):
    def area@@(self) -> int:
        ...
""")
ordinary('TYPE_CHECKING', """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import a@@
""")
ordinary('an optional import', """
try:
    import ujson_not_there as json
except ImportError:
    import json
DATA = json.loads('@@')
""")
ordinary('main', """
def main():
    print(@@)
if __name__ == '__main__':
    main()
""")
ordinary('a class', """
class Order:
    "An order."
    LIMIT = @@
    NAMES = ('a', 'b')
    def __init__(self, n):
        self.n = n
    def twice(self):
        return self.n * @@
    def __add__(self, o):
        return @@
    def __repr__(self):
        return '@@'
""")
ordinary('class members', """
class Order:
    def __init__(self):
        self._n = @@
    @property
    def n(self):
        return self._n
    @n.setter
    def n(self, v):
        self._n = v
    @staticmethod
    def s(x=@@):
        return x
    @classmethod
    def c(cls):
        return cls()
""")
ordinary('a subclass', """
class A:
    n = 1
class B(A):
    n = @@
    def m(self):
        return super().m()
""")
ordinary('an abstract class', """
import abc
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        ...
class Square(Shape):
    def area(self):
        return @@
""")
ordinary('an error', """
class AppError(ValueError):
    code = @@
class Worse(AppError):
    pass
""")
ordinary('a dataclass', """
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Order:
    n: int
    by: float = 1.@@
    tags: list = field(default_factory=list)
    def total(self):
        return self.n * @@
""")
ordinary("a dataclass's instance", """
from dataclasses import dataclass
@dataclass
class Order:
    n: int = 1
DEFAULT = Order(@@)
LIMIT = DEFAULT.n * 2
""")
ordinary('a slotted dataclass', """
import dataclasses
@dataclasses.dataclass(slots=True, order=True)
class Order:
    n: int = @@
""")
ordinary('a class of attrs', """
import attrs
@attrs.define
class Order:
    n: int = attrs.field(default=@@, kw_only=True)
    tags: list = attrs.field(factory=list)
""")
ordinary('an enum', """
import enum
class Color(enum.Enum):
    RED = 'r@@'
    BLUE = 'b'
    def loud(self):
        return self.value
BEST = Color.RED
NAMES = {Color.RED: 'x', Color.BLUE: 'y'}
VALUE = Color.RED.value + '!'
""")
ordinary('more enums', """
import enum
class Bits(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    C = @@ * 8
class Level(enum.IntEnum):
    LOW = 1
    HIGH = @@
@enum.unique
class Kind(str, enum.Enum):
    A = 'a'
""")
ordinary('constants in a class', """
class Config:
    LIMIT = @@
    class Inner:
        n = @@
LIMIT = Config.LIMIT * 2
INNER = Config.Inner.n
""")
ordinary('a namespace', """
from types import SimpleNamespace, MappingProxyType
S = SimpleNamespace(n=@@)
M = MappingProxyType({'a': @@})
""")
ordinary('handlers', """
def a(x):
    return @@
def b(x):
    return 2
HANDLERS = {'a': a, 'b': b, **{'c': a}}
ORDER = [a, b]
""")
ordinary('a cached function', """
import functools
@functools.lru_cache(maxsize=@@)
def g(x):
    return x
@functools.cache
def h():
    return @@
""")
ordinary('a partial', """
import functools
def g(x, n):
    return x * n
twice = functools.partial(g, n=@@)
""")
ordinary('a context manager', """
import contextlib
@contextlib.contextmanager
def opened(n):
    yield (n * @@)
""")
ordinary('an overload', """
from typing import overload, final
@overload
def g(x: int) -> int:
    ...
@overload
def g(x: str) -> str:
    ...
def g(x):
    return @@
""")
ordinary('a single dispatch', """
import functools
@functools.singledispatch
def show(x):
    return @@
@show.register(int)
def _(x):
    return @@
@show.register
def _(x: str):
    return @@
""")
ordinary('a decorator', """
import functools
def timed(inner):
    "Times."
    @functools.wraps(inner)
    def wrapper(*a, **k):
        return inner(*a, **k)
    return wrapper
@timed
def g(x):
    return x * @@
""")
ordinary('a decorator with arguments', """
from functools import wraps
def retry(times, wait=1.0):
    def decorate(inner):
        @wraps(inner)
        def wrapper(*a):
            for _ in range(times):
                return inner(*a)
        return wrapper
    return decorate
@retry(3, wait=@@)
def g(x):
    return @@
""")
ordinary('total ordering', """
import functools
@functools.total_ordering
class V:
    def __init__(self, n):
        self.n = n
    def __eq__(self, o):
        return self.n == o.n
    def __lt__(self, o):
        return self.n < o.n + @@
""")
ordinary('a schema', """
from pyspark.sql.types import StructType, StructField, StringType, LongType
SCHEMA = StructType([StructField('a@@', StringType()), StructField('b', LongType(), False)])
OTHER = StructType().add('c', 'long').add('d@@', StringType())
NAMES = SCHEMA.fieldNames()
TEXT = SCHEMA.simpleString()
""")
ordinary("a schema's text", """
SCHEMA = 'a long, b@@ string'
""")
ordinary('a udf', """
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType
@udf(LongType())
def g(x):
    return @@
@udf(returnType=LongType())
def h(x):
    return @@
k = udf(lambda x: x * @@, LongType())
def plus(x):
    return x + @@
m = udf(plus, LongType())
""")
ordinary('a udf of F', """
from pyspark.sql import functions as F, types as T
@F.udf(T.LongType())
def g(x):
    return @@
@F.udf(T.StringType())
def h(x):
    return '@@'
""")
ordinary('a pandas udf', """
import pandas as pd
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import LongType
@pandas_udf(LongType())
def g(x: pd.Series) -> pd.Series:
    return x * @@
""")
ordinary('a processor', """
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
class Count(StatefulProcessor):
    def init(self, handle) -> None:
        self.handle = handle
    def handleInputRows(self, key, rows, timers):
        yield @@
""")
ordinary('a data source', """
from pyspark.sql.datasource import DataSource, DataSourceReader
class Mine(DataSource):
    @classmethod
    def name(cls):
        return 'mine@@'
    def reader(self, schema):
        return None
""")
ordinary('a streaming app', """
from airflow_provider_streamupdate.streaming import StreamingApp
app = StreamingApp('x')
@app.query('orders@@')
def orders(spark):
    return spark.table('a@@')
""")
ordinary("the platform's names", """
from pyspark.sql import DataFrame, SparkSession, Row
def g(df: DataFrame, spark: SparkSession) -> DataFrame:
    return df.limit(@@)
Person = Row('name', 'age@@')
""")
ordinary('numpy', """
import numpy as np
WEIGHTS = np.array([0.5, @@])
KIND = np.dtype('float32')
TOTAL = float((WEIGHTS * 2).sum())
PI = np.pi * @@
""")
ordinary('pandas', """
import pandas as pd
TABLE = pd.DataFrame({'a': [1, @@]})
NAMES = pd.Series(['x'], index=[1])
START = pd.Timestamp('2026-01-0@@')
""")
ordinary('a lock', """
import threading
LOCK = threading.Lock()
LOCAL = threading.local()
LIMIT = @@
""")
ordinary('a context variable', """
import contextvars
REQUEST = contextvars.ContextVar('request@@', default=None)
""")
ordinary('a random generator', """
import random
RANDOM = random.Random(@@)
""")
ordinary('uuid and hashes', """
import uuid, hashlib
SPACE = uuid.UUID(int=@@)
HASH = hashlib.sha256(b'@@').hexdigest()[:8]
""")
ordinary('math', """
import math
LIMIT = math.floor(math.sqrt(@@)) + math.pi
""")
ordinary('sorting', """
NAMES = sorted(['b', 'a@@'], key=len, reverse=True)
MOST = max(1, @@)
TOTAL = sum([1, @@])
""")
ordinary('texts', """
TEXT = 'a,b,@@'
PARTS = TEXT.split(',')
UPPER = ' '.join((p.upper() for p in PARTS))
CLEAN = TEXT.replace('a', 'b').strip()
""")
ordinary('string templates', """
import string
T = string.Template('$a @@')
LETTERS = string.ascii_letters[:@@]
""")
ordinary('itertools', """
import itertools, operator
PAIRS = list(itertools.product([1, 2], [@@]))
GET = operator.itemgetter(@@)
""")
ordinary('deprecation', """
import warnings
def old():
    warnings.warn('use new@@', DeprecationWarning, stacklevel=2)
""")
ordinary("a module of the app's", """
import other
from other import LIMIT, g
TWICE = LIMIT * 2
AGAIN = other.LIMIT + @@
TABLE = {'g': g, 'h': other.g}
""")
ordinary('a class of another module', """
from other import Base
class Mine(Base):
    n = @@
    def m(self):
        return Base.m(self)
""")
ordinary('nested functions', """
def make(n):
    def inner(x):
        return x * n * @@
    return inner
""")
ordinary('a version', """
__version__ = '1.@@'
__author__ = 'me'
VERSION = tuple((int(p) for p in __version__.split('.')))
""")
ordinary('an assertion', """
LIMIT = @@
assert LIMIT > 0, 'limit'
""")
ordinary('a loop', """
NAMES = ['a', 'b@@']
for number, name in enumerate(NAMES):
    LAST = name * number
""")
ordinary('os and sys', """
import os, sys
CPUS = os.cpu_count()
IS_LINUX = sys.platform.startswith('linux')
LIMIT = @@
""")
ordinary('a match of types', """
from typing import Literal, Final, ClassVar, Annotated
Mode = Literal['a', 'b@@']
LIMIT: Final = @@
class C:
    n: ClassVar[int] = @@
    m: Annotated[int, 'x'] = 1
Number = int | float
""")
ordinary('slots', """
class P:
    __slots__ = ('x', 'y@@')
    def __init__(self, x):
        self.x = x
""")
ordinary('hash and order', """
class P:
    def __init__(self, n):
        self.n = n
    def __eq__(self, o):
        return self.n == o.n
    def __hash__(self):
        return @@
    def __lt__(self, o):
        return @@
""")
ordinary('future', """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Node:
    next: Node | None = None
    value: int = @@
def g(n: Node) -> list[Node]:
    return [n] * @@
""")
# fmt: on
