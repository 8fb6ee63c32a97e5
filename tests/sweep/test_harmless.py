"""Harmless changes: the same written otherwise. At most 2 % of them may be taken for a change.

Each pair is two texts of SQL, planned on a stream; what makes them the same is Spark's own parser, analyzer and
optimizer, or what the product knows (operands that may change places, names that do not count). Pairs of whole apps are
in tests/spark/pairs_of_*.py.
"""

from __future__ import annotations

from tests.sweep.harmless import pairs, written
from tests.sweep.judge import meanings, session
from tests.sweep.table import stream

AT_MOST = 0.02


def test_the_same_written_otherwise(sweep_spark, tmp_path, capsys) -> None:
    spark = session(sweep_spark)
    frame = stream(spark, str(tmp_path)).alias("rows")
    taken, refused = [], []
    for one, other in pairs():
        try:
            before, after = meanings(frame.selectExpr(f"{written(one)} as x", f"{written(other)} as y"))
        except Exception as error:
            refused.append((one, other, str(error)[:150]))
            continue
        taken.append((one, other, before, after))
    wrong = [t for t in taken if t[2] != t[3]]
    with capsys.disabled():
        print(f"harmless: pairs {len(taken)}, taken for a change {len(wrong)}, no SQL {len(refused)}")
        for one, other, before, after in wrong:
            print(f"  {one} | {other}\n    {before}\n    {after}")
        for line in refused:
            print("  no SQL:", line)
    assert len(taken) >= 150
    assert len(wrong) <= AT_MOST * len(taken)
