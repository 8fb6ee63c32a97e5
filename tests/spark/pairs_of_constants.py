"""Constants that read alike."""

from __future__ import annotations

from pairs import CI, Version, counts, looked_up, per_key, under, values

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}

ONE, TWO, DAY = "2025-11-02 05:30:00+00:00", "2025-11-02 06:30:00+00:00", "2025-01-01 00:00:00+00:00"  # one local time
ADDRESSES = ", ".join(f"'{n}@bee.de'" for n in range(12))
ARRAYS = ", ".join(f"array({n})" for n in range(12))
SHAPE = "element_at(array(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')), a) is null"


def here(version: Version) -> Version:
    return under(version, session_timeZone="America/New_York")


def variant(of: str) -> str:
    return per_key(f"sum(if(schema_of_variant(if(a > 5, {of}, cast(2 as variant))) = 'STRING', a, 0))")


def texts(*numbers: int) -> str:
    return ", ".join(f"cast(X'{n:02x}' as string)" for n in numbers)


def of_session(text: str, *statements: str, **settings: str) -> Version:
    """A query that uses the session's variable x."""
    return under(
        text, *(s if s.startswith("set") else f"declare or replace variable x {s}" for s in statements), **settings
    )


ABOVE_X = looked_up("(select * from tabl where weight > session.x)")
LISTED_X = looked_up("(select * from tabl where array_contains(session.x, weight))")
MOMENT_X = looked_up("(select * from tabl where timestamp_seconds(weight) > session.x)")
INT, LIST = "int default {}", "array<int> default array(1, {})"
DIFFER["constants"] = {
    "a session's moment": tuple(of_session(MOMENT_X, "set time zone 'America/New_York'",
        f"timestamp default timestamp'{t}'") for t in (ONE, TWO)),
    "a moment in a list": tuple(here(f"array_contains(array(timestamp'{t}', timestamp'{DAY}'), ts)")
        for t in (ONE, TWO)),
    "a moment in a map": tuple(here(f"element_at(map(timestamp'{t}', 1), ts)") for t in (ONE, TWO)),
    "a variant of a date": (variant("cast(date'2020-01-01' as variant)"), variant("cast('2020-01-01' as variant)")),
    "a variant of a number": (variant("cast(1.5D as variant)"), variant("cast(1.5BD as variant)")),
    "a variant of a list": (variant("cast(array(date'2020-01-01') as variant)"),
        variant("cast(array('2020-01-01') as variant)")),
    "a variant in a list": tuple(variant(f"element_at(array(cast({n} as variant)), a)") for n in ("1.5D", "1.5BD")),
    "bytes of a long list": (f"k in ({texts(*range(240, 252))})", f"k in ({texts(*range(241, 253))})"),
    "addresses in a long list": (f"k in ({ADDRESSES})", f"k in ({ADDRESSES}, 'x@ace')"),
    "null in a long list": (f"k in ({ADDRESSES}, null)", f"k in ({ADDRESSES}, 'null')"),
    "a long list of lists": (f"array(a) in ({ARRAYS})", f"array(a) in ({ARRAYS}, array(77))"),
    "quotes of a collated text": (
        "concat(k collate unicode, 'a' collate unicode, 'b' collate unicode) = 'x'",
        r"concat(k collate unicode, 'a:\'string collate UNICODE\', b' collate unicode) = 'x'"),
    "a zero with a sign": ("array(0.0D)[a]", "array(-0.0D)[a]"),
    "a collation in a list": ("array_contains(array('a'), k)", f"array_contains(array('a' {CI}), k)"),
    "a calendar's interval": tuple(f"tn + array(make_interval(0, 1, 0, {n}, 0, 0))[a]" for n in ("30, 0", "29, 24")),
    "a time of the day": tuple(under(f"element_at(array(time'10:00:00{t}'), a) < cast(tn as time)",
        timeType_enabled="true")
                               for t in ("", ".000001")),
    "months given in the code": tuple(values(f"('a', interval '1' month), ('b', interval '{n}' month)")
        for n in (2, 3)),
    "variants given in the code": tuple(values(f"('a', cast({n} as variant))", "schema_of_variant(label)")
        for n in ("1.5D", "1.5BD")),
    "null given in the code": (values("('a', null), ('b', 'x')"), values("('a', 'NULL'), ('b', 'x')")),
    "a row more given in the code": (values("('a', 'x')"), values("('a', 'x'), ('a', 'y')")),
    "a session's variable": tuple(of_session(ABOVE_X, INT.format(n)) for n in (5, 6)),
    "a session's variable set": (of_session(ABOVE_X, INT.format(5)),
        of_session(ABOVE_X, INT.format(5), "set variable x = 7")),
    "a session's list": tuple(of_session(LISTED_X, LIST.format(n)) for n in (5, 6)),
    "or of another one": ("k = 'a' or k2 = 'b'", "k in ('a', 'b')"),
    "not": ("k = 'a' or k = 'b'", "k not in ('a', 'b')"),
    "null is one": ("k = 'a' or k = 'b'", "k <=> 'a' or k <=> 'b'"),
    "another unit": ("date_trunc('hour', ts)", "date_trunc('DAY', ts)"),
    "a text that is no unit": ("concat(k, 'hour')", "concat(k, 'HOUR')"),
}  # fmt: skip
SAME |= {
    "a moment written otherwise": tuple(here(f"array_contains(array(timestamp'{t}'), ts)")
        for t in (ONE, "2025-11-02 11:00:00+05:30")),
    "a variable's value": (of_session(ABOVE_X, INT.format(5)),
        of_session(ABOVE_X, INT.format(6), "set variable x = 5")),
    "a variable or its value": (of_session(ABOVE_X, INT.format(5)), ABOVE_X.replace("session.x", "5")),
    "a shape on the map": (SHAPE, SHAPE),
    "or of one column": ("k = 'a' or k = 'b'", "k in ('b', 'a')"),
    "or of one column and another": ("k = 'a' or a > 1 or 'b' = k", "a > 1 or k in ('a', 'b')"),
    "or of numbers": ("a = 1 or a in (3, 2)", "a in (1, 2) or a = 3"),
    "a unit in capitals": ("date_trunc('hour', ts)", "date_trunc('HOUR', ts)"),
    "a unit of a date": ("trunc(date(ts), 'month')", "trunc(date(ts), 'Month')"),
    "a day in capitals": ("next_day(date(ts), 'mon')", "next_day(date(ts), 'MON')"),
    "a field in other letters": ("from_json(v, 'x int, y int').x", "from_json(v, 'x int, y int').X"),
    "a field beside others": tuple(f"element_at(transform(nums, n -> struct(n as x, n as z)), 1).{x}" for x in "xX"),
}  # fmt: skip

# Filters that ask for the time: what they are does not change with the moment at which a plan is made.


def below(condition: str) -> Version:
    return under(counts("k", f"rws where {condition}"), timeType_enabled="true")


def above(condition: str) -> Version:
    return lambda g: g.made(counts("window(ts, '1 hour') w, k", "late")).where(condition)


def of_a_table(condition: str) -> str:
    return looked_up(f"(select * from tabl where {condition})")


AT = "timestamp_seconds(weight)"
CLOCKS: dict[str, Version] = {
    "now": below("ts > now() - interval 1 day"),
    "current_timestamp": below("ts > current_timestamp() - interval 2 hours AND a > 1"),
    "current_date": below("date(ts) >= current_date() - 7"),
    "localtimestamp": below("cast(ts AS timestamp_ntz) > localtimestamp()"),
    "current_time": below("cast(ts AS time) > current_time(3)"),
    "now, cut off": below("ts > date_trunc('day', now())"),
    "now, as a text": below("k2 > cast(now() AS string)"),
    "now, a choice": below("CASE WHEN now() > timestamp'2020-01-01' THEN a > 1 ELSE a > 2 END"),
    "now, of a table": of_a_table(f"{AT} > now() - interval 1 day"),
    "now, of a table's key": of_a_table("k > cast(current_date() AS string)"),
    "now, of a subquery": below(f"k IN (SELECT k FROM tabl WHERE {AT} > now())"),
}
SAME |= {name: (version, version) for name, version in CLOCKS.items()}
SAME["now, above a stage"] = (above("w.end < now()"), above("w.end < now()"), "append")
# Other filters than those are told or asked about; each with its output mode.
OTHER_CLOCKS = {
    "now": (CLOCKS["now"], below("ts > now() - interval 2 days")),
    "current_date": (CLOCKS["current_date"], below("date(ts) >= current_date() - 8")),
    "cut off": (CLOCKS["now, cut off"], below("ts > date_trunc('hour', now())")),
    "above": (above("w.end < now()"), above("w.end < now() - interval 1 hour"), "append"),
    "of a table": (CLOCKS["now, of a table"], of_a_table(f"{AT} > now() - interval 2 days")),
}
