"""Which quiet statements (quiet.py) run nothing of the app's: it is known that they do nothing else.

`is_quiet` follows the calls that it sees. Python calls more by itself (operators, properties, ``__init_subclass__``,
``__set_name__``, metaclasses, factories of defaults ...), and what is handed on may be called (``sorted(key=g)``).
So here is the positive list: definitions, and expressions over values of Python's, of the platform's and of known
packages. A statement that is not in it counts by its text with all that it reaches by name (reached.py).

statements.py is asked. It asks assignments.py and definitions.py (with decorators.py and wraps.py), these ask
expressions.py (with calls.py and uses.py), and these names.py and live.py. What a name stands for is told from the
expression that it is given, so names.py is handed the function that looks at one: `Names.kind`. Below all of them lie
classes.py, which looks at classes as they are, scope.py and kinds.py.
"""
