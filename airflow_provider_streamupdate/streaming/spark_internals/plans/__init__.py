"""Plans as data: Spark's own JSON of a logical plan (plans.py), with all that it leaves out. What counts of it is said
elsewhere (planning/expressions/noise.py)."""
