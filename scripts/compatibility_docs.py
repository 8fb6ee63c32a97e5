#!/usr/bin/env python
# ruff: noqa: E501 (prose and tables)
"""Write docs/compatibility.md from the rules themselves (core/compatibility/rules). A test compares the two.

.venv/bin/python scripts/compatibility_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from airflow_provider_streamupdate.core.compatibility.rules import NEEDS_AGREEMENT, TABLE, Rule
from airflow_provider_streamupdate.core.compatibility.rules.settings.setting import HARMLESS
from airflow_provider_streamupdate.core.compatibility.rules.settings.settings_table import MEASURED

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"

HEAD = """\
<!-- Written by scripts/compatibility_docs.py from airflow_provider_streamupdate/core/compatibility/rules: change those. -->
# Compatibility

The rules on this page decide whether a new version can continue from saved state. `streamupdate check`, the
[StreamCompatibilityCheckOperator](operators/stream-compatibility-check.md) and every driver that restores a snapshot use
the same table. A report names the rules that lead to each verdict: search this page for a rule's name.

## How it is decided

1. Queries, stages (`stage`) and sources (`source`) are matched by **name**.
2. Matched things are compared by their **meaning**: keys, aggregates, windows, conditions and columns are traced through
   projections, and through other stages, down to columns of sources. Another alias is not a change; `select(b as key)` instead
   of `select(a as key)` is one.
3. Of all rules that apply to a thing, the worst verdict counts.
4. A difference that no rule knows to be harmless is refused.

| verdict | meaning |
|---|---|
| carried | state, offsets or batch ids continue |
| empty | new: starts without state, or at its configured offset |
| migrated | the state is rewritten for the new plan |
| carried with loss | continues, but some results differ from what the new version alone would give: the report says which. Needs agreement |
| ignored | gone from the new plan: its state or offsets are left behind. Needs agreement |
| refused | cannot continue correctly, or is not known to |

## What counts as meaning

Everything counts that is not known to be harmless. Two expressions are the same when their texts are equal. A text holds **every
field of every node** of the expression: functions and their flags, options, patterns, constants, formats, time zones where one is
used, evaluation modes, a Python function's code, result type and argument names. Spark's own JSON of a plan omits some of these
(sets, maps, enumerations); they are read from the plan itself. What does not count is one short list, with a reason for each entry:
`airflow_provider_streamupdate/streaming/planning/expressions/noise.py`.

Beyond the expression itself, these count:

| subject | what counts |
|---|---|
| **type** of a source column | the type of each column the expression reads, kept beside the text. Wider integers under `sum` and `avg`, and any type under `count`, are carried. A column that the state holds unchanged follows the rules for the state's types (some are migrated). Anything computed from the column, and every list, sketch, hash or percentile, is refused with another type |
| **default** of a source column | its value |
| **struct** | a field by its name, so fields may be added beside it. The same holds in a list or map: in the lambda of `exists`, `forall`, `transform` and `aggregate`, and at a fixed place (`orders[0].price`). In `size` and in a test for null no field counts. A struct, list or map used as a whole (`filter`, `array_sort`, `to_json`): the names and the order of all its fields |
| **union** | what makes the rows of the branch a column comes from (`explode`, lookups); its filters where branches read the same source; all of these in a union of tables; which columns are of one branch, where the rest does not distinguish them |
| column **looked up in a table** | how it is joined, the condition, and every node of the table's plan: filters, limits, groups, windows, subqueries, set operations, Python functions, the reader's options, the order of a CSV file's columns, rows given in the code; which one, where a table is joined with itself. The order of its rows counts where something depends on it (a limit, a window) |
| **table** | its files, or its query and database, no matter what a catalog calls it. Which files and partitions exist is data. A Python data source counts as the class it was made from, even if another class has its name now. Where csv, json or xml drops malformed records, fails or tells them in a column, which columns are read and as which types |
| **rows given in the code** | the rows; their number of partitions where something looks at partitions (`spark_partition_id`, `mapInPandas`) |
| **notes** in a source's schema | all but those known not to decide what is read (`comment`); a column's number in Parquet files where Spark finds columns by it |
| **user-defined type** | the code of the type's class, which makes the values that Python functions see |
| **stream joined with itself** | the side a column is on |
| **one of several equal things** | which one it is: two `explode` of one list, two lookups in one table, two random numbers |
| **file metadata** | that a column describes the file and not its content (`_metadata`) |
| **`CHAR` column** | its length |
| **watermark** | the stages below it, which columns of a stage have it, and on how many branches with other rows it is: the slowest one counts |
| **paths of rows** | on which branch of a union of one source a filter, a join with a table or a stage is; the order of stages that drop rows (deduplications, limits); what is above a watermark: rows that are dropped there have advanced it |
| **rows that reach a stage** | what produces other rows, or more or fewer of them, on their way (`explode`, a join with a table, `in` and `exists`, a union of a source with itself, a join of streams) |

A filter written below a stage applies from now on, as Spark's own guide says; so does another type with which a source's or a
table's column is read in one. Other rows of the initial state of transformWithState change nothing: Spark reads it in a query's first
batch only. A stage that is added below another one starts empty, and the report says so.

Some spellings are known to be equivalent, and are carried:

- operands of `+`, `*`, `=`, `and`, `or` in another order; `a < b` for `b > a`
- the values of `in` in another order; `k = 'a' or k = 'b'` for `k in ('a', 'b')`
- `'HOUR'` for `'hour'` in `date_trunc`
- a join with a table with its sides swapped (`right` for `left`), or `crossJoin` for one without a condition
- names of columns, aliases and lambda variables
- `with` and views; SQL text or functions

Seeds of random functions do not count: Spark gives each batch of a stream a new one.

A value that has no stable text makes the expression *unknown*: the check refuses it and names the function and the field.

If you know that a refused stage means the same, say so for that stage, with a reason: `--agree 'windows/daily:same=upper() of a
code that is upper case already'`. This is possible where the form of the state's rows is unchanged. The report shows the name to
use, and keeps the reason.

## What must be agreed to

Agree by name, as the report gives it (`--agree windows/daily`, `--agree windows:watermark`). There is no flag that agrees to
everything. After the rules, Spark itself checks the restored state. `check` and every update do that; `check --plan` does not,
because it has no state.

## How the rules are tested

Every rule names the tests that show it. Those under `tests/spark` run real apps. `tests/spark/test_traps.py` has a pair for each way
in which an update was once called carried and computed wrong results.

**`make fuzz N=300`** (`tests/fuzz`) tests the table. It checks, restores and runs random pairs of app versions over random input on
Spark, every third pair by a real hand-over between two agents.

- Half of the pairs are made of a few kinds of steps, and an oracle in plain Python says what they must emit.
- The other half is drawn from what the sweeps know (expressions of Spark's registry, changed types, lookups, unions, self joins,
  Python functions, settings). The right answer is that of one Spark batch over all input.
- It fails when one verdict is silently wrong, or when more than 1 % of the pairs are refused although they could have continued.
- It prints each failure with its seed: `make fuzz SEED=... N=1` replays it. With `RESULTS=file`, an interrupted run continues.

**`make sweep`** (`tests/sweep`) tests what a text means: every built-in function of Spark's registry, with its literals, options,
types, flags and arguments changed.

- Two expressions that give different results on any row of a table of edge cases must not have the same text. One expression that is
  planned twice must not have two texts.
- It prints the functions it covers, what it leaves out with the reason, and each failure; `make sweep SEED=...` replays it.

## How to choose names

- Name every stateful step with `stage("name", df)` and, as soon as a query has two sources, every source with
  `source("name", df)`. Without names, both are identified by position alone, and a changed plan is refused where positions
  may have changed.
- Name things after what they hold (`visits`, `orders`), not after how they are made (`agg1`, `last-5-minutes`): how they are
  made may change, and the name should not.
- A name is a promise: the same name means the same state. To start a stage without state on purpose, give it another name and agree
  to the loss of the old one.
- To give an unnamed source its first name, just name it: it is matched with the one source that reads the same place in the same
  format, and goes on where it was. An unnamed stage is matched with the one new stage that means the same.
- To change a name, say so once, with the update that introduces it: `--rename QUERY/OLD=NEW` (`renames={"QUERY/OLD": "NEW"}` in
  Airflow). It works for stages and sources. The query may be left out when no other query has the name. The report offers the
  rename first, with what is lost or read twice without it.
- A query keeps its name, by which its checkpoint is found. Under another name it is a new query, which reads everything again.
- `source()` needs no setting. Spark's own `.name()` (4.2+, with `spark.sql.streaming.queryEvolution.enableSourceEvolution`)
  is supported as well; a query keeps the kind of names it began with.

A sink needs no name: a query has one sink, and the query's name identifies it.
"""


SETTINGS = """\
## Settings that change results

A setting of the session can change the result of an expression, a file or a query. For {count} settings this was measured. A plan
holds their values as the session has them, or Spark's defaults where nothing is set. You agree to a change by the setting's name
(`--agree windows:spark.sql.session.timeZone`).

- A setting that provably changes nothing in both versions needs no agreement: the time zone where nothing in the plan depends on
  time, settings of Parquet and ORC where no such file is read or written (`streaming/planning/settings/unaffected.py`).
- Plans of earlier versions hold only the time zone, case sensitivity and ANSI mode. There, any value other than Spark's default needs
  agreement.
- Queries without state may change all of them.

Four values that are not Spark settings are compared in the same way:

| value | what it is | what depends on it |
|---|---|---|
| `python.timezone` | the zone of the machine (`TZ`) | the timestamps that Python functions and data sources see |
| `jvm.locale` | the language of Java | how `upper`, `lower` and `initcap` write letters that are not ASCII |
| `jvm.timezone` | the zone of Java (`TZ`, `-Duser.timezone`), whatever the session's is | times of day in ORC files and in requests to databases; the correction of times before 1900 in Parquet and Avro files that do not say where they were written; `java_method`, `reflect` and `%t` in `format_string` |
| `default.parallelism` | the number of parts that rows are divided into where nothing else says so (`local[N]`, `spark.default.parallelism`, the cores that a cluster is asked for) | see below |

`jvm.timezone` needs agreement where one of its dependents is present, or a format that is not known. Both of Java's values include
what executors are given for theirs. Plans of earlier versions do not hold these four: no agreement is needed then.

**Any other setting** of SQL, of a file format or of Hadoop (`spark.hadoop.*`, whether given in the configuration, the session
or the code) that a session was given counts, too, when its value changes: whether it changes results is unknown. Hadoop's own files
are not read.

How rows are divided among tasks (`spark.sql.files.maxPartitionBytes` ..., `spark.sql.autoBroadcastJoinThreshold` below a lookup,
and `default.parallelism`) needs agreement where something reveals it: `spark_partition_id`, `monotonically_increasing_id`, the
start or the length of a block, and Python functions that see many rows (`mapInPandas`, `mapInArrow`, iterators, UDTFs). For these
functions it also counts what makes or drops rows below them: a join with a table, an `explode`, a filter.

No agreement is needed for what the offset log holds (Spark continues with that), and for these:

{harmless}

The Hadoop settings in this list were reviewed. The others were measured: each boolean, enumeration or number in Spark's registry,
public or internal, was given other values, with ANSI mode and without, and a corpus was evaluated. The corpus has the examples of all
built-in functions, casts, date patterns, arithmetic, queries, files of each format read and written, Python functions, and streaming
queries from the start and restarted. None changed a result (`make sweep`, `tests/sweep/settings.py`). The sweep prints the settings
it left out, with the reason: they are static (not to be set in a session), free text, or read by nothing in the corpus.

The table below shows what is known about the others:

- *values*: the example gives another value
- *types*: another type, name or number of columns
- *errors*: an error under one of the two
- *in the offset log*: Spark continues with the old value

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
