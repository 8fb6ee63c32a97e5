"""What code can look at besides instructions and values: names, places, lines, sources. In ``TOLD_APART`` it does, so
that `old` and `new` are two; in ``EQUAL_TEXTS`` nothing looks, so that they are one.
"""

from __future__ import annotations

from tests.sweep.python_pairs import MAIN, Pair

TOLD_APART: list[Pair] = []
EQUAL_TEXTS: list[Pair] = []


def apart(name: str, old: str, new: str, helpers: str, **more: str) -> None:
    modules = {f"{module}.py": text for module, text in more.items()}
    TOLD_APART.append(Pair(name, old, new, {"app.py": MAIN, "helpers.py": helpers, **modules}))


def equal(name: str, old: str, new: str, helpers: str) -> None:
    EQUAL_TEXTS.append(Pair(name, old, new, {"app.py": MAIN, "helpers.py": helpers}))


# fmt: off
# The module and the name of a class
MAKES = "def make():\n    class C: pass\n    return C\n"
HOMES = dict.fromkeys(("one", "two"), "class C: n = 1\nclass E(Exception): pass\n")
for name, read in {
    "str": "str(C)", "str in a table": "[g(C) for g in TABLE['s']]", "the type of an error": "str(type(E('a')))",
    "str as a default": "json.dumps(C, default=str)", "a pickle": "pickle.dumps(C())",
    "an alias": "str(typing.List[C])",
}.items():
    head = "import json, pickle, typing\nfrom @@ import C, E\nTABLE = {'s': [str]}\n"
    apart(f"the module of a class: {name}", "one", "two", f"{head}def f(x): return {read}\n", **HOMES)
apart("the module of a class that a function makes", "one", "two",
      "from @@ import make\ndef f(x): return str(make())\n", one=MAKES, two=MAKES)
apart("the class around a class", "A", "B",
      "class A:\n    class C: pass\nclass B:\n    class C: pass\ndef f(x): return str(@@.C)\n")
# Names in the texts of errors
apart("a variable without a value", "a", "b", """
def f(x):
    try:
        if x > 5: @@ = 1
        return @@
    except UnboundLocalError as e: return str(e)
""")
apart("a variable around a function", "aa", "bb", """
def f(x):
    def g(): return @@
    try: return g()
    except NameError as e: return e.args
    @@ = 1
""")
apart("a function that is called otherwise", "aa", "bb", """
def @@(a): return a
def f(x):
    try: return @@(*x)
    except TypeError as e: return str(e)
""")
equal("a variable with a value, and errors", "aa", "bb", """
def f(x):
    @@ = 1
    try:
        for i in x:
            @@ += i
            k = [@@ + j for j in x]
        with open('a') as file: file.read(@@)
        return lambda: @@
    except Exception as e: return str(e)
    finally: @@ = 2
""")

# Lines and sources
COMMENT = "# one", "# one\n    # two"
for name, source in {
    "f_lineno": "import sys\ndef f(x):\n    @@\n    return sys._getframe().f_lineno\n",
    "tb_lineno": "def g(x):\n    @@\n    raise ValueError\ndef f(x):\n    try: g(x)\n"
    "    except ValueError as e: return e.__traceback__.tb_next.tb_lineno\n",
    "co_lines": "def g():\n    @@\n    return 1\ndef f(x): return list(g.__code__.co_lines())\n",
    "format_exc": "import traceback\ndef g(x):\n    @@\n    raise ValueError\ndef f(x):\n    try: g(x)\n"
    "    except ValueError: return traceback.format_exc()\n",
    "exc_info": "import sys\ndef g(x):\n    @@\n    raise ValueError\ndef f(x):\n    try: g(x)\n"
    "    except ValueError: return sys.exc_info()[2].tb_next.tb_lineno\n",
    "a warning": "import warnings\ndef g(x):\n    @@\n    warnings.warn('a')\ndef f(x):\n"
    "    with warnings.catch_warnings(record=True) as w: g(x)\n    return w[0].lineno\n",
}.items():
    apart(f"lines: {name}", *COMMENT, source)
for name, source in {
    "getsource": "import inspect\n# @@\ndef g(): return 1\ndef f(x): return inspect.getsource(g)\n",
    "linecache": "import linecache\n# @@\ndef f(x): return linecache.getline(__file__, 2)\n",
    "doctest": "import doctest\ndef g():\n    '>>> @@'\ndef f(x): return doctest.DocTestFinder().find(g, 'g')\n",
    "help": "import sys\ndef g():\n    '@@'\ndef f(x): return help(g)\n",
}.items():
    apart(f"sources: {name}", "3", "4", source)
equal("lines that nobody reads", *COMMENT, "def g(x):\n    @@\n    return x\ndef f(x):\n    try: return g(x)\n"
      "    except ValueError as e: return str(e), e.__traceback__\n")
equal("lines of ignored warnings", *COMMENT,
      "import sys, warnings\ndef g(x):\n    @@\n    warnings.warn('a')\ndef f(x):\n"
      "    with warnings.catch_warnings(): warnings.simplefilter('ignore'); g(x)\n    return sys.exc_info()[0]\n")
apart("a computed name: texts", "3", "4", "A = '__do'\ndef g(): '@@'\ndef f(x): return getattr(g, A + 'c__')\n")
apart("a computed name: hints", "int", "str",
      "A = 'ations__'\ndef g(a: @@): pass\ndef f(x): return getattr(g, '__annot' + A)\n")
equal("a name that is data", "'a'", "'b'", "class C: a_b = 1\ndef g(): @@\ndef f(x): return getattr(C, x + 'b'), g()\n")
# fmt: on

# On which partition a row is
PARTITIONS = {
    "imported": "from pyspark import TaskContext as T\ndef g(): return T.get()\n",
    "of a module": "import pyspark\ndef g(): return pyspark.TaskContext.get()\n",
    "of the inner module": "import pyspark.taskcontext as t\ndef g(): return t.TaskContext.get()\n",
    "when it runs": "def g():\n    from pyspark import BarrierTaskContext\n    return BarrierTaskContext.get()\n",
    "by its name": "import pyspark\ndef g(): return getattr(pyspark, 'TaskContext').get()\n",
    "an instance": "from pyspark import TaskContext\nT = TaskContext()\ndef g(): return T\n",
}

# What a package reads of functions, which it may be given; comments and lines nobody gives it.
READER = {
    "reader/__init__.py": "def of(g): return g.__doc__\ndef double(x): return 2 * x\ndef marked(g): return g\n"
    "class Base: pass\n",
    "reader-1.0.dist-info/METADATA": "Name: reader\nVersion: 1.0\n",
    "reader-1.0.dist-info/top_level.txt": "reader\n",
}
NOT_GIVEN = {
    "a comment": "import reader\n'''@@'''\ndef f(x): return reader.double(x)\n",
    "a first line": "import reader\nUNRELATED = '''''@@'''''\ndef f(x): return reader.double(x)\n",
}
GIVEN = {
    "an argument": "import reader\ndef g():\n    '''@@'''\ndef f(x): return reader.of(g)\n",
    "an inner one": "import reader\ndef f(x):\n    def g():\n        '''@@'''\n    return reader.of(g)\n",
    "a decorator": "import reader\n@reader.marked\ndef g():\n    '''@@'''\ndef f(x): return g()\n",
    "a value": "import reader\ndef g():\n    '''@@'''\nT = {'a': g}\ndef f(x): return reader.of(T['a'])\n",
    "a default": "import reader\ndef g():\n    '''@@'''\ndef f(x, h=g): return reader.of(h)\n",
    "a method": "import reader\nclass C(reader.Base):\n    def m(self): '''@@'''\ndef f(x): return reader.of(C.m)\n",
    "a hint": "import reader\ndef g(a: '''@@'''): pass\ndef f(x): return reader.of(g)\n",
}
GIVEN_PAIRS, NOT_GIVEN_PAIRS = (
    [Pair(name, "one", "a\nb", {"app.py": MAIN, "helpers.py": source}) for name, source in sources.items()]
    for sources in (GIVEN, NOT_GIVEN)
)
