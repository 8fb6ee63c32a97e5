#!/usr/bin/env python
# ruff: noqa: E501 (prose and tables)
"""Write docs/compatibility.md from the rules themselves (state/rules). A test compares the two.

.venv/bin/python scripts/compatibility_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from airflow_provider_streamupdate.state.rules import NEEDS_AGREEMENT, TABLE, Rule
from airflow_provider_streamupdate.state.rules.setting import HARMLESS
from airflow_provider_streamupdate.state.rules.settings_table import MEASURED

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"

HEAD = """\
<!-- Written by scripts/compatibility_docs.py from airflow_provider_streamupdate/state/rules: change those. -->
# Compatibility

Whether a new version can go on from saved state is decided by the rules below, one entry each. `streamupdate check`, the
[StreamCompatibilityCheckOperator](operators/stream-compatibility-check.md) and every driver that restores a snapshot run
the same table. A report names the rules that lead to each verdict.

## How it is decided

Things are matched by **name**: queries, stages (`stage`), sources (`source`). What is matched is compared by what it **is**:
keys, aggregates, windows, conditions and columns are traced through projections, and through other stages, down to columns
of sources. An alias is no change, and `select(b as key)` in place of `select(a as key)` is one. Of all rules that apply
to a thing the worst verdict counts. What no rule knows to be harmless is refused.

| verdict | meaning |
|---|---|
| carried | state, offsets or batch ids go on |
| empty | new: starts without state, or at its configured offset |
| migrated | the state is rewritten for the new plan |
| carried with loss | goes on, but some results differ from what the new version alone would give: the report says which. Needs agreement |
| ignored | gone from the new plan: its state or offsets are left behind. Needs agreement |
| refused | cannot go on correctly, or is not known to |

## What counts as meaning

What is not known to be harmless is part of the meaning. Two expressions are the same when their texts are, and a text holds
**every field of every node** of the expression: functions and their flags, options, patterns, constants, formats, time zones
where one is used, evaluation modes, a Python function's code, result type and argument names. Spark's own JSON of a plan
leaves some of these out (sets, maps, enumerations); they are read from the plan itself. What does not count is one short list
with a reason each: `airflow_provider_streamupdate/streaming/noise.py`. Beyond the expression itself count:

- the **type** of each source column it reads, kept beside the text. Wider integers under `sum` and `avg`, and any type under
  `count`, are carried; a column that the state holds as it is follows the rules for the state's types (some are migrated);
  anything computed from the column, and every list, sketch, hash or percentile, is refused with another type;
- the **default** of a source's column;
- a **struct's field** goes by its name, so fields may be added beside it; a struct that is used whole counts with the names
  and the order of its fields;
- in a **union**, what makes the rows of the branch a column comes from (`explode`, lookups), its filters where branches read
  the same source, and all of them in a union of tables; which columns are of one branch, where that does not tell them apart;
- for a column **looked up in a table**, how it is joined, the condition, and every node of the table's plan: filters,
  limits, groups, windows, subqueries, set operations, Python functions, the reader's options, the order of a CSV file's
  columns, rows given in the code; which one, where a table is joined with itself. The order of its rows counts where
  something looks at it (a limit, a window);
- a **table** is what its files are, or what is asked of which database, whatever a catalog calls it; which of its files and
  partitions there are is data. A Python data source is the class that it was made of, whatever has its name since;
- of a column of a **user-defined type** the code of the type's class, which makes the values that Python functions see;
- in a **stream joined with itself**, the side a column is on;
- **which one** of several that are made alike: two `explode` of one list, two lookups in one table, two random numbers;
- that a column tells of the **file** and not of what is in it (`_metadata`), and the length of a `CHAR` column;
- for a **watermark**, the stages below it, which columns of a stage have it, and on how many branches with other rows it
  is: the slowest one counts;
- **the ways of rows**: on which branch of a union of one source a filter, a join with a table or a stage is, in which order
  the stages are that drop rows (deduplications, limits), and what is above a watermark: rows that are dropped there have
  moved it;
- **how rows come to a stage**: what makes other rows, or more or fewer of them, on their way (`explode`, a join with a table,
  `in` and `exists`, a union of a source with itself, a join of streams). A filter that is written below a stage holds from
  now on, as Spark's own guide has it; so does another type that a source's column is read with. A stage that is put below
  another one starts empty, and the report says so.

Some ways of writing are known to be the same, and are carried: operands of `+`, `*`, `=`, `and`, `or` in another order,
`a < b` for `b > a`, the values of `in` in another order, `k = 'a' or k = 'b'` for `k in ('a', 'b')`, `'HOUR'` for `'hour'` in
`date_trunc`, a join with a table turned round (`right` for `left`) or `crossJoin` for one without a condition, names of
columns, aliases and lambda variables, `with` and views, SQL
text or functions. Seeds of random functions do not count: Spark gives each batch of a stream a new one.

A value that has no stable text makes the expression *unknown*: the check refuses it and names the function and the field.

Where you know better, say so for one stage, and say why: `--agree 'windows/daily:same=upper() of a code that is upper case
already'`. That is possible where the state's rows keep their form; the report offers the name, and keeps the reason.

## What must be agreed to

Agreement is given by name, as the report has it (`--agree windows/daily`, `--agree windows:watermark`): there is no flag that
agrees to everything. After the rules Spark checks the restored state itself (`check` and every update do that; `check --plan`
does not, because it has no state).

The table is put to the test by `make fuzz N=300` (`tests/fuzz`): random pairs of app versions over random input are checked,
restored and run on Spark, every third pair by a real hand-over between two agents. Half of the pairs are made of a few kinds of
steps, and an oracle in plain Python says what they must emit; the other half is drawn from what the sweeps know (expressions
of Spark's registry, changed types, lookups, unions, self joins, Python functions, settings), and the answer is that of one
Spark batch over all input. It fails when one verdict is silently wrong or more than 1 % of the pairs are refused although they
could have gone on, and prints each failure with its seed: `make fuzz SEED=... N=1` replays it. With `RESULTS=file` a run that
was cut goes on where it was. Every rule names the tests that show it; those under `tests/spark` run real apps, and
`tests/spark/test_causes.py` has a pair for each way in which an update was once called carried and computed wrong results.

What a text means is put to the test by `make sweep` (`tests/sweep`): every built-in function of Spark's registry, with its
literals, options, types, flags and arguments changed. Two expressions that give different results on any row of a table of
edge cases may not have one meaning, and one that is planned twice may not have two. It prints the functions it covers, what
it leaves out with the reason, and each failure; `make sweep SEED=...` replays it.

## How to choose names

- Name every stateful step with `stage("name", df)` and, as soon as a query has two sources, every source with
  `source("name", df)`. Without names both are known by their position alone, and a changed plan is refused where positions
  may have changed.
- Name things after what they hold (`visits`, `orders`), not after how they are made (`agg1`, `last-5-minutes`): how they are
  made may change, and the name should not.
- A name is a promise: the same name means the same state. To begin a stage anew on purpose, give it another name and agree to
  the loss of the old one.
- To change a name, say so once, with the update that brings it: `--rename old=new` (`renames={"old": "new"}` in Airflow). It
  works for stages and sources, and gives an unnamed one its name: `--rename aggregate-1=visits`, `--rename source-1=orders`.
- `source()` needs no setting. Spark's own `.name()` (4.2+, with `spark.sql.streaming.queryEvolution.enableSourceEvolution`)
  is understood as well; a query keeps to the one it began with.

A sink needs no name: a query has one, and goes by its own.
"""


SETTINGS = """\
## Settings that change results

A setting of the session can change what an expression, a file or a query gives: of {count} it was measured. A plan holds
their values as the session has them, Spark's defaults where nothing is set, and a change is agreed to by the setting's name
(`--agree windows:spark.sql.session.timeZone`). One that provably changes nothing in both versions is not asked about: the
time zone where nothing in the plan has to do with time, settings of Parquet and ORC where no such file is read or written
(`streaming/unaffected.py`). Plans of earlier versions hold the time zone, case sensitivity and ANSI mode only: there any
other value than Spark's default is asked about. Queries without state may change all of them.

Four that are no settings of Spark are compared in the same way. `python.timezone` is the zone of the machine (`TZ`), by which
Python functions and data sources see timestamps. `jvm.locale` is the language of Java, by which `upper`, `lower` and `initcap`
write letters that are not ASCII. `jvm.timezone` is the zone of Java (`TZ`, `-Duser.timezone`), whatever the session's is: ORC
files have times of day, and databases are asked for such; times before 1900 in Parquet and Avro files that do not say where
they were written are put right by it; `java_method`, `reflect` and `%t` in `format_string` see it. It is asked about where one
of these is there, or a format that is not known. With both of Java's goes what executors are told of theirs.
`default.parallelism` is the number of parts that rows are shared out into where nothing else says so (`local[N]`,
`spark.default.parallelism`, the cores that a cluster is asked for). Plans of earlier versions do not hold them: nothing is
asked then.

**Any other setting** of SQL, of a file format or of Hadoop (`spark.hadoop.*`, whether given in the configuration, the session
or the code) that a session was given counts, too, when its value changes: whether it changes results is not known. Hadoop's
own files are not looked at. How the rows of files are shared out among tasks (`spark.sql.files.maxPartitionBytes` ..., and
`default.parallelism`) is asked about where an expression tells it: `spark_partition_id`, `monotonically_increasing_id`, the start or the length of a
block. Not asked about are what the offset log holds (Spark goes on with that), and these:

{harmless}

Those of Hadoop are reviewed. Of the others each one in Spark's registry that is a boolean, an enumeration or a number, public or internal, was given other
values, with ANSI mode and without, and a corpus evaluated: the examples of all built-in functions, casts, date patterns,
arithmetic, queries, files of each format read and written, Python functions, streaming queries from the start and restarted.
None changed a result (`make sweep`, `tests/sweep/settings.py`). It prints those that were left out, with the reason: they are
static (not to be set in a session), free text, or read by nothing in the corpus.

The table below tells what is known of the others. *values*: the example gives another value; *types*: another type, name or
number of columns; *errors*: an error under one of the two. *In the offset log*: Spark goes on with the old value.

| setting | Spark's default | tried | changes | example |
|---|---|---|---|---|
{rows}
"""


def page() -> str:
    sections = [_section(title, rules) for title, rules in TABLE.items()]
    place = list(TABLE).index("Watermarks and settings") + 1
    return "\n".join([HEAD, *sections[:place], _settings(), *sections[place:]])


def _settings() -> str:
    rows = [
        f"| `{m.key}`{' (in the offset log)' if m.recorded else ''} | {_code(m.default)} | {_code(m.other)} | {m.change} | "
        f"{_code(m.example)} |"
        for m in MEASURED.values()
    ]
    harmless = "\n".join(f"- `{key}{'*' if key.endswith('.') else ''}`: {why}" for key, why in HARMLESS.items())
    return SETTINGS.format(count=len(MEASURED), harmless=harmless, rows="\n".join(rows))


def _code(text: str) -> str:
    """In a cell of a table."""
    flat = " ".join(text.split())
    shown = flat if len(flat) <= 90 else f"{flat[:87]}..."
    quote = "``" if "`" in shown else "`"
    return (
        f"{quote} {shown} {quote}".replace("|", "\\|")
        if "`" in shown
        else f"`{shown}`".replace("|", "\\|")
        if shown
        else "empty"
    )


def _section(title: str, rules: tuple[Rule, ...]) -> str:  # type: ignore[type-arg]
    rows = [f"| `{r.id}` | {r.change} | {_verdict(r)} | {r.source} | {_tests(r)} |" for r in rules]
    head = ["| rule | what changed | verdict | known from | shown by (tests) |", "|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *head, *rows, ""])


def _verdict(rule: Rule) -> str:  # type: ignore[type-arg]
    words = rule.verdict + (" (agreement)" if rule.verdict in NEEDS_AGREEMENT else "")
    return words + (", or migrated" if rule.migratable else "")


def _tests(rule: Rule) -> str:  # type: ignore[type-arg]
    return "<br>".join(f"`{test}`" for test in rule.tests)


if __name__ == "__main__":
    PAGE.write_text(page())
