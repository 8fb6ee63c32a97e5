"""Pairs of apps made of what the sweeps know (tests/sweep): expressions of Spark's registry, changed types, lookups,
unions, self joins, Python functions and settings. Nothing here says what they mean: the answer is what one Spark batch
makes of all input, and after an update that asked for nothing, stream and batch must agree, row by row.
"""
