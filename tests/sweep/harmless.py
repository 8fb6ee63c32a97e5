"""The same written otherwise: pairs of texts of SQL. What makes two the same is Spark's own parser, analyzer and
optimizer, or what the product knows (operands that may change places, names that do not count).

{i}, {j}: whole numbers, {d}, {e}: floating ones, {s}: a text, {b}: a boolean; ``dt`` and ``ts``: a date, a timestamp.
"""

from __future__ import annotations

import re

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
    "size(array({i}))": ["cardinality(array({i}))", "array_size(array({i}))"],
    "transform(array({i}), x -> x + 1)": ["transform(array({i}), y -> y + 1)", "transform(array({i}), x -> 1 + x)"],
    "filter(array({i}), x -> x > 0)": ["filter(array({i}), y -> y > 0)", "filter(array({i}), x -> 0 < x)"],
    "aggregate(array({i}), 0, (a, x) -> a + x)": ["reduce(array({i}), 0, (sum, v) -> sum + v)"],
    "exists(array({i}), x -> x = 1)": ["exists(array({i}), q -> 1 = q)"],
    "named_struct('x', {i})": ["struct({i} as x)"],
    "sha({s})": ["sha1({s})"],
    "regexp_replace({s}, 'a', 'b')": ["regexp_replace({s}, 'a', 'b', 1)"],
    "replace({s}, 'a', '')": ["replace({s}, 'a')"],
    "split({s}, ',')": ["split({s}, ',', -1)"],
    "round({d})": ["round({d}, 0)"],
    "lpad({s}, 5)": ["lpad({s}, 5, ' ')"],
    # what the parser, the analyzer or the optimizer makes the same
    "{i} + 1 > {j}": ["{j} < 1 + {i}", "({i} + 1) > {j}"],
    "not({i} > 1 and {j} > 2)": ["not({j} > 2 and {i} > 1)"],
    "{b} = true": ["true = {b}"],
    "{i} in (7)": ["{i} = 7", "7 = {i}"],
    "case when {i} > 1 then 'a' when {j} > 2 then 'b' else 'c' end": [
        "CASE WHEN 1 < {i} THEN 'a' WHEN 2 < {j} THEN 'b' ELSE 'c' END"
    ],
    "{s} like 'abc'": ["{s} = 'abc'"],
    "coalesce({i}, {j}, 0)": ["coalesce({i}, coalesce({j}, 0))"],
    "concat({s}, '-', {s})": ["{s} || '-' || {s}"],
    "cast(ts as date)": ["date(ts)", "ts::date", "to_date(ts)"],
    "extract(quarter from dt)": ["quarter(dt)", "date_part('quarter', dt)"],
    "extract(week from dt)": ["weekofyear(dt)"],
    "extract(dow from dt)": ["dayofweek(dt)"],
    "extract(doy from dt)": ["dayofyear(dt)"],
    "minute(ts)": ["extract(minute from ts)", "date_part('minute', ts)"],
    "date_part('second', ts)": ["extract(second from ts)"],
    "{i} % 2 = 0": ["0 = {i} % 2", "mod({i}, 2) = 0"],
    "{d} * 100 / {e}": ["100 * {d} / {e}"],
    "(({i}))": ["{i}"],
    "size(split({s}, ','))": ["cardinality(split({s}, ','))", "size(split({s}, ',', -1))"],
    "named_struct('x', {i}, 'y', {j}).y": ["{j}", "struct({i} as x, {j} as y).y"],
    "forall(array({i}), x -> x > 0)": ["forall(array({i}), y -> 0 < y)"],
    "zip_with(array({i}), array({j}), (x, y) -> x + y)": ["zip_with(array({i}), array({j}), (p, q) -> q + p)"],
    "case when {b} then 1 when not {b} then 2 end": ["CASE WHEN {b} THEN 1 WHEN NOT {b} THEN 2 ELSE NULL END"],
    "if({b}, 'x', null)": ["case when {b} then 'x' end", "case when {b} then 'x' else null end"],
    "{i} is distinct from {j}": ["not({i} <=> {j})", "not({j} <=> {i})"],
    "{s} ilike 'A%'": ["ILIKE({s}, 'A%')", "lower({s}) like lower('A%')"],
    "date'2024-01-01' < dt": ["dt > date'2024-01-01'", "dt > date '2024-01-01'"],
    "ts >= timestamp'2024-01-01 00:00:00'": ["timestamp'2024-01-01 00:00:00' <= ts", "ts >= timestamp '2024-01-01'"],
    "{i} + 0.0": ["0.0 + {i}"],
    "1000 * 60": ["60000", "60 * 1000"],
    "'a' || 'b'": ["'ab'", "concat('a', 'b')"],
    "overlay({s} placing 'x' from 2)": ["overlay({s}, 'x', 2)"],
    "shiftleft({i}, 1)": ["{i} << 1"],
    "shiftright({i}, 1)": ["{i} >> 1"],
    "ifnull({i}, 0) + 1": ["1 + coalesce({i}, 0)", "nvl({i}, 0) + 1"],
    "`c_int` + 0": ["c_int + 0", "rows.c_int + 0"],
}  # fmt: skip
NAMES = {"i": "c_int", "j": "c_int2", "d": "c_double", "e": "c_double2", "s": "c_str", "b": "c_bool"}


def pairs() -> list[tuple[str, str]]:
    return [(one, other) for one, others in SYNONYMS.items() for other in others]


def written(text: str) -> str:
    """With columns of the sweep's table."""
    for sign, name in NAMES.items():
        text = text.replace("{%s}" % sign, name)  # noqa: UP031
    return re.sub(r"\bts\b", "c_ts", re.sub(r"\bdt\b", "c_date", text))
