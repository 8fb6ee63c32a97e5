"""What code can look at besides instructions and values: names, places, lines, sources. In ``TOLD_APART`` it does, so
that `old` and `new` are two; in ``EQUAL`` nothing looks, so that they are one.
"""

from __future__ import annotations

from tests.sweep.python_pairs import MAIN, Pair

TOLD_APART: list[Pair] = []
EQUAL: list[Pair] = []


def _add(into: list[Pair], name: str, old: str, new: str, helpers: str, app: str = MAIN, **more: str) -> None:
    modules = {f"{module}.py": text for module, text in more.items()}
    into.append(Pair(name, old, new, {"app.py": app, "helpers.py": helpers, **modules}))


def apart(name: str, old: str, new: str, helpers: str, app: str = MAIN, **more: str) -> None:
    _add(TOLD_APART, name, old, new, helpers, app, **more)


def equal(name: str, old: str, new: str, helpers: str, app: str = MAIN, **more: str) -> None:
    _add(EQUAL, name, old, new, helpers, app, **more)


# The module and the name of a class
MAKES = "def make():\n    class C: pass\n    return C\n"
HOMES = {"one": "class C: n = 1\nclass E(Exception): pass\n", "two": "class C: n = 1\nclass E(Exception): pass\n"}
for name, read in {
    "str": "str(C)",
    "repr": "repr([C])",
    "str in a table": "[g(C) for g in TABLE['s']]",
    "str by another name": "list(map(str, [C]))",
    "an f-string": "f'{C} of {x}'",
    "format": "'{}'.format(C)",
    "%": "'%s' % C",
    "the type of an error": "str(type(E('a')))",
    "str as a default": "json.dumps(C, default=str)",
    "a pickle": "pickle.dumps(C())",
    "a Template": "string.Template('$a').substitute(a=C)",
    "an alias": "str(typing.List[C])",
}.items():
    head = "import json, pickle, string, typing\nfrom @@ import C, E\nTABLE = {'s': [str]}\n"
    apart(f"the module of a class: {name}", "one", "two", f"{head}def f(x): return {read}\n", **HOMES)
apart("the module of a class that a function makes", "one", "two",
      "from @@ import make\ndef f(x): return str(make())\n", one=MAKES, two=MAKES)  # fmt: skip
apart("the class around a class", "A", "B",
      "class A:\n    class C: pass\nclass B:\n    class C: pass\ndef f(x): return str(@@.C)\n")  # fmt: skip
# Names in the texts of errors
apart("a variable without a value", "a", "b", """
def f(x):
    try:
        if x > 5: @@ = 1
        return @@
    except UnboundLocalError as e: return str(e)
""")  # fmt: skip
apart("a variable without a value, any error", "aa", "bb", """
def f(x):
    try:
        for aa in x: pass
        return aa
    except Exception as e: return f'{e}'
""".replace("aa", "@@"))  # fmt: skip
apart("a variable around a function", "aa", "bb", """
def f(x):
    def g(): return @@
    try: return g()
    except NameError as e: return e.args
    @@ = 1
""")  # fmt: skip
apart("a deleted variable", "aa", "bb", """
def f(x):
    @@ = x
    try:
        del @@
        return @@
    except NameError as e: return repr(e)
""")  # fmt: skip
apart("a function that is called otherwise", "aa", "bb", """
def @@(a): return a
def f(x):
    try: return @@(*x)
    except TypeError as e: return str(e)
""")  # fmt: skip
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
""")  # fmt: skip
# What stands before `return` and may leave the variable without a value.
for name, body in {
    "a while": "while x:\n            @@ = 1\n            break",
    "an else of a try": "try:\n            if x: raise KeyError\n        except KeyError: pass\n        else: @@ = 2",
    "a try": "try:\n            @@ = 1 / x\n        except ZeroDivisionError: pass",
    "a with that suppresses": "import contextlib\n        with contextlib.suppress(Exception): @@ = 1 / x",
    "a match": "match x:\n            case [@@]: pass\n            case _: pass",
    "an and": "x and (@@ := 3)",
    "a condition": "y = (@@ := 1) if x else 2",
    "a handler's variable": "try: 1 / 0\n        except ZeroDivisionError as @@: pass",
    "an if around which a loop goes": "for i in range(2):\n            if i: return @@\n            if x: @@ = 1",
    "a function that deletes it": "@@ = 1\n        def g():\n            nonlocal @@\n            del @@\n        g()",
}.items():
    text = f"def f(x):\n    try:\n        {body}\n        return @@\n    except Exception as e: return str(e)\n"
    apart(f"a variable without a value after {name}", "aa", "bb", text)

# Lines and sources
COMMENT = "# one", "# one\n    # two"
for name, source in {
    "f_lineno": "import sys\ndef f(x):\n    @@\n    return sys._getframe().f_lineno\n",
    "tb_lineno": "def g(x):\n    @@\n    raise ValueError\ndef f(x):\n    try: g(x)\n"
    "    except ValueError as e: return e.__traceback__.tb_next.tb_lineno\n",
    "co_lines": "def g():\n    @@\n    return 1\ndef f(x): return list(g.__code__.co_lines())\n",
    "co_positions": "def g():\n    @@\n    return 1\ndef f(x): return list(g.__code__.co_positions())\n",
    "format_exc": "import traceback\ndef g(x):\n    @@\n    raise ValueError\ndef f(x):\n    try: g(x)\n"
    "    except ValueError: return traceback.format_exc()\n",
    "a warning": "import warnings\ndef g(x):\n    @@\n    warnings.warn('a')\ndef f(x):\n"
    "    with warnings.catch_warnings(record=True) as w: g(x)\n    return w[0].lineno\n",
}.items():
    apart(f"lines: {name}", *COMMENT, source)
apart(
    "the text of a line",
    "3",
    "4",
    "import traceback as t\ndef f(x):\n    try: x()  # @@\n    except OSError: return t.format_exc()\n",
)
for name, source in {
    "getsource": "import inspect\n# @@\ndef g(): return 1\ndef f(x): return inspect.getsource(g)\n",
    "getsource by name": "from inspect import getsource as s\nclass C:\n    # @@\n    n = 1\ndef f(x): return s(C)\n",
    "linecache": "import linecache\n# @@\ndef f(x): return linecache.getline(__file__, 2)\n",
    "doctest": "import doctest\ndef g():\n    '>>> @@'\ndef f(x): return doctest.DocTestFinder().find(g, 'g')\n",
    "help": "import sys\ndef g():\n    '@@'\ndef f(x): return help(g)\n",
}.items():
    apart(f"sources: {name}", "3", "4", source)
equal("lines that nobody reads", *COMMENT, "def g(x):\n    @@\n    return x\ndef f(x):\n    try: return g(x)\n"
      "    except ValueError as e: return str(e), e.__traceback__\n")  # fmt: skip
apart("a computed name: texts", "3", "4", "A = '__do'\ndef g(): '@@'\ndef f(x): return getattr(g, A + 'c__')\n")
apart(
    "a computed name: hints",
    "int",
    "str",
    "A = 'ations__'\ndef g(a: @@): pass\ndef f(x): return getattr(g, '__annot' + A)\n",
)
equal("a name that is data", "'a'", "'b'", "class C: a_b = 1\ndef g(): @@\ndef f(x): return getattr(C, x + 'b'), g()\n")

# On which partition a row is
PARTITIONS = {
    "imported": "from pyspark import TaskContext as T\ndef g(): return T.get()\n",
    "of a module": "import pyspark\ndef g(): return pyspark.TaskContext.get()\n",
    "of the inner module": "import pyspark.taskcontext as t\ndef g(): return t.TaskContext.get()\n",
    "when it runs": "def g():\n    from pyspark import BarrierTaskContext\n    return BarrierTaskContext.get()\n",
    "a module when it runs": "def g():\n    import pyspark as p\n    return p.TaskContext.get()\n",
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
    "called as well": "import reader\ndef g():\n    '''@@'''\ndef f(x): return g() or reader.of(g)\n",
    "a default": "import reader\ndef g():\n    '''@@'''\ndef f(x, h=g): return reader.of(h)\n",
    "a method": "import reader\nclass C(reader.Base):\n    def m(self): '''@@'''\ndef f(x): return reader.of(C.m)\n",
    "a hint": "import reader\ndef g(a: '''@@'''): pass\ndef f(x): return reader.of(g)\n",
}  # fmt: skip
