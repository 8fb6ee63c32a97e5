"""A digest of a Python function as Spark pickled it: equal digests, with equal effects of imports, compute the same.

`describe` is all that is used from outside; digest.py says what counts. The walk (walk.py) meets objects (objects.py),
functions (functions.py, listing.py) and Spark's own values (spark.py), asks whose they are (owner.py), and notes
packages and what cannot be compared (report.py). imports.py follows what is written in the app's modules (sources.py,
statements.py).

Source: cloudpickle pickles what is defined in the app's own file by value and what is imported by reference, so the
pickle alone does not hold the code of the app's other files; it is loaded and walked.
"""

from .digest import CodeDigest, describe

__all__ = ["CodeDigest", "describe"]
