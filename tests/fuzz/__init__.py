"""The fuzz: random pairs of app versions, run for real, each verdict compared with what an oracle in plain Python says.

`random.Random(seed)` makes the pairs, not hypothesis: a pair takes seconds on Spark, so that shrinking would take an
hour, while one number replays a pair exactly (``make fuzz SEED=.. N=1``), on every machine and after every upgrade.
"""
