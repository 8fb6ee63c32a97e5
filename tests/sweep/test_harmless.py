"""Harmless changes: the same written otherwise. At most 2 % of them may be taken for a change.

Each pair is two texts of SQL, planned on a stream; what makes them the same is Spark's own parser, analyzer and
optimizer, or what the product knows (operands that may change places, names that do not count). Pairs of whole apps are
in tests/spark/test_meaning.py.
"""

from __future__ import annotations

import itertools
import re

from tests.sweep.judge import meanings, session
from tests.sweep.table import stream

# Functions that have two names (FunctionRegistry): the calls of the first are said again with each of the others.
SYNONYMS = {
    "upper({s})": ["ucase({s})", "UPPER({s})"],
    "lower({s})": ["lcase({s})", "Lower( {s} )"],
    "length({s})": ["char_length({s})", "character_length({s})", "len({s})"],
    "coalesce({s}, 'x')": ["ifnull({s}, 'x')", "nvl({s}, 'x')"],
    "nvl2({s}, 1, 2)": ["if({s} is not null, 1, 2)", "case when {s} is not null then 1 else 2 end"],
    "nullif({i}, 1)": ["case when {i} = 1 then null else {i} end"],
    "{s} || 'x'": ["concat({s}, 'x')"],
    "substring({s}, 2, 3)": ["substr({s}, 2, 3)", "substring({s} from 2 for 3)"],
    "trim({s})": ["trim(both from {s})", "btrim({s})"],
    "ltrim({s})": ["trim(leading from {s})"],
    "rtrim({s})": ["trim(trailing from {s})"],
    "position('a', {s})": ["locate('a', {s})", "position('a' in {s})"],
    "startswith({s}, 'a')": ["{s} like 'a%'"],
    "endswith({s}, 'a')": ["{s} like '%a'"],
    "contains({s}, 'a')": ["{s} like '%a%'"],
    "{s} rlike 'a+'": ["regexp({s}, 'a+')", "regexp_like({s}, 'a+')", "{s} regexp 'a+'"],
    "not({s} like 'a_')": ["{s} not like 'a_'", "!({s} like 'a_')"],
    "power({d}, 2)": ["pow({d}, 2)"],
    "sign({d})": ["signum({d})"],
    "ceil({d})": ["ceiling({d})"],
    "ln({d})": ["LN({d})"],
    "mod({i}, 7)": ["{i} % 7"],
    "int({s})": ["cast({s} as int)", "{s}::int", "CAST({s} AS INTEGER)"],
    "string({i})": ["cast({i} as string)", "{i}::string"],
    "bigint({i})": ["cast({i} as bigint)", "cast({i} as long)"],
    "double({i})": ["cast({i} as double)"],
    "day(dt)": ["dayofmonth(dt)", "extract(day from dt)", "date_part('DAY', dt)"],
    "year(dt)": ["extract(year from dt)", "date_part('year', dt)"],
    "month(dt)": ["extract(MONTH from dt)"],
    "hour(ts)": ["extract(hour from ts)"],
    "date_add(dt, 1)": ["dateadd(dt, 1)", "dt + 1"],
    "date_sub(dt, 1)": ["dt - 1"],
    "datediff(dt, date'2020-01-01')": ["date_diff(dt, date'2020-01-01')"],
    "to_date({s})": ["date({s})", "cast({s} as date)"],
    "ts + interval '60' minute": ["ts + interval '1' hour", "ts + interval '3600' second", "ts + interval 1 hour"],
    "ts + interval '2' day": ["ts + interval 2 days"],
    "{i} is null": ["isnull({i})"],
    "{i} is not null": ["isnotnull({i})", "not({i} is null)"],
    "{i} <=> {j}": ["equal_null({i}, {j})", "{j} <=> {i}", "{i} is not distinct from {j}"],
    "{i} = {j}": ["{j} = {i}", "{i} == {j}"],
    "{i} <> {j}": ["{i} != {j}", "not({i} = {j})", "{j} <> {i}"],
    "{i} < {j}": ["{j} > {i}", "not({i} >= {j})"],
    "{i} <= {j}": ["{j} >= {i}"],
    "{i} > 3": ["3 < {i}", "{i} > 1 + 2", "({i}) > (3)"],
    "{i} between 1 and 5": ["{i} >= 1 and {i} <= 5", "{i} <= 5 and {i} >= 1", "5 >= {i} and 1 <= {i}"],
    "{i} not between 1 and 5": ["not ({i} between 1 and 5)"],
    "{i} in (1, 2, 3)": ["{i} in (3, 1, 2)", "{i} in (1, 2, 3, 3)"],
    "{i} not in (1, 2, 3)": ["not({i} in (3, 2, 1))"],
    "{s} in ('a', 'b')": ["{s} in ('b', 'a')"],
    "{i} > 1 and {j} > 2 and {d} > 3": ["{d} > 3 and {i} > 1 and {j} > 2", "{j} > 2 and ({d} > 3 and {i} > 1)"],
    "{i} > 1 or {j} > 2 or {d} > 3": ["{d} > 3 or ({j} > 2 or {i} > 1)"],
    "if({b}, {i}, {j})": ["case when {b} then {i} else {j} end"],
    "case {i} when 1 then 'a' else 'b' end": ["case when {i} = 1 then 'a' else 'b' end"],
    "decode({i}, 1, 'a', 'b')": ["decode({i} , 1 , 'a' , 'b')"],
    "{i} + {j}": ["{j} + {i}", "({i} + {j})", "{i}+{j}"],
    "{i} * {j}": ["{j} * {i}"],
    "{d} + {e}": ["{e} + {d}"],
    "{i} + 1": ["1 + {i}", "{i} + (3 - 2)"],
    "{i} * 3600": ["{i} * (60 * 60)", "3600 * {i}"],
    "- {i}": ["negative({i})", "-({i})"],
    "{i} & {j}": ["{j} & {i}"],
    "{i} | {j}": ["{j} | {i}"],
    "{i} ^ {j}": ["{j} ^ {i}"],
    "abs({i})": ["ABS({i})", "abs ( {i} )", "/* size */ abs({i})"],
    "array({i}, {j})": ["array( {i},{j} )"],
    "size(array({i}))": ["cardinality(array({i}))", "array_size(array({i}))"],
    "transform(array({i}), x -> x + 1)": ["transform(array({i}), y -> y + 1)", "transform(array({i}), x -> 1 + x)"],
    "filter(array({i}), x -> x > 0)": ["filter(array({i}), y -> y > 0)", "filter(array({i}), x -> 0 < x)"],
    "aggregate(array({i}), 0, (a, x) -> a + x)": ["reduce(array({i}), 0, (sum, v) -> sum + v)"],
    "exists(array({i}), x -> x = 1)": ["exists(array({i}), q -> 1 = q)"],
    "map('a', {i})": ["map( 'a' , {i} )"],
    "named_struct('x', {i})": ["struct({i} as x)"],
    "sha2({s}, 256)": ["sha2({s}, 256)", "SHA2({s}, 256)"],
    "sha({s})": ["sha1({s})"],
    "hex({i})": ["HEX({i})"],
    "date_format(ts, 'yyyy')": ["DATE_FORMAT(ts, 'yyyy')"],
    "date_trunc('HOUR', ts)": ["date_trunc('HOUR',ts)"],
    "greatest({i}, {j})": ["GREATEST({i}, {j})"],
    "regexp_replace({s}, 'a', 'b')": ["regexp_replace({s}, 'a', 'b', 1)"],
    "replace({s}, 'a', '')": ["replace({s}, 'a')"],
    "split({s}, ',')": ["split({s}, ',', -1)"],
    "round({d})": ["round({d}, 0)"],
    "lpad({s}, 5)": ["lpad({s}, 5, ' ')"],
    "`c_int` + 0": ["c_int + 0", "rows.c_int + 0"],
}  # fmt: skip
NAMES = {"i": "c_int", "j": "c_int2", "d": "c_double", "e": "c_double2", "s": "c_str", "b": "c_bool"}
AT_MOST = 0.02


def pairs() -> list[tuple[str, str]]:
    return [(one, other) for one, others in SYNONYMS.items() for other in others]


def test_the_same_written_otherwise(sweep_spark, tmp_path, capsys) -> None:
    spark = session(sweep_spark)
    frame = stream(spark, str(tmp_path)).alias("rows")
    columns = {name.split(".")[-1]: kind for name, kind in frame.dtypes}
    names = dict(NAMES)
    names["s"] = next(name for name, kind in columns.items() if kind == "string")
    dates = {kind: next(name for name, k in columns.items() if k == kind) for kind in ("date", "timestamp")}

    def written(text: str) -> str:
        for sign, name in names.items():
            text = text.replace("{%s}" % sign, name)  # noqa: UP031
        text = re.sub(r"\bdt\b", dates["date"], text)
        return re.sub(r"\bts\b", dates["timestamp"], text)

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
    assert len(taken) >= 100
    assert len(wrong) <= AT_MOST * len(taken)
    assert len(set(itertools.chain(*pairs()))) > 150
