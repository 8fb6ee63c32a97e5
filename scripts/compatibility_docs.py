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

Whether a new version can continue from saved state. `streamupdate check`, the
[StreamCompatibilityCheckOperator](operators/stream-compatibility-check.md), every update and every driver that restores use this table.
A report names its rules: search this page for a rule's name. [Verdicts](concepts.md#verdicts) are explained there.

1. Queries, stages (`stage`) and sources (`source`) are matched by **name**.
2. They are compared by **meaning**: keys, aggregates, windows and conditions are traced to columns of sources. Another alias is no change;
   `select(b as key)` for `select(a as key)` is one.
3. Of all rules that apply, the worst verdict counts. What no rule knows to be harmless is refused.
4. Spark itself then checks the restored state (not with `check --plan`, which has no state).

**Agreement** is by name, as the report gives it: `--agree windows/daily`, `--agree windows:watermark`. If you know that a refused stage means
the same: `--agree 'windows/daily:same=upper() of a code that is upper case already'`, where the form of the state's rows is unchanged. The
report keeps the reason.

## How to choose names

- Name every stateful step with `stage("name", df)` and, when a query has two sources, every source with `source("name", df)`. Unnamed ones
  are identified by position, and a changed plan is refused where positions may have changed.
- Name what a stage holds (`visits`), not how it is made (`agg1`). The same name means the same state. To start a stage empty on purpose, give
  it another name and agree to the loss of the old one.
- To name an unnamed source or stage, just name it: it is matched with the one that reads the same place, or means the same.
- To change a name: `--rename QUERY/OLD=NEW` (`renames` in Airflow) with the update that introduces it.
- A query under another name is a new query, which reads everything again. A sink needs no name.
- Spark's own `.name()` works as well (4.2+, `spark.sql.streaming.queryEvolution.enableSourceEvolution`); a query keeps the kind it began with.

## What counts as meaning

Every field of every node of an expression counts, but a short list with reasons (`streaming/planning/expressions/noise.py`). An expression with a
value that has no stable text is refused; the report names the function and the field. These count as well:

| subject | what counts |
|---|---|
| source column | its type and default. Wider integers under `sum` and `avg`, and any type under `count`, are carried |
| struct | a field by its name. A struct, list or map used as a whole: the names and order of all its fields |
| parsed JSON | of the schema of `from_json` the fields that are read. All of it in mode FAILFAST or DROPMALFORMED, with a column of corrupt records, with `spark.sql.json.enablePartialResults=false`, and with options or types not known to leave the other fields alone. Texts that are no JSON may be parsed otherwise from now on |
| union | what makes the rows of the branch a column comes from |
| lookup in a table | the join, its condition, and all of the table's plan. Which files and partitions exist is data |
| table | its files, or its query and database. A Python data source: its class |
| rows given in the code | the rows; their partitions where something looks at partitions |
| schema notes | all but those known not to decide what is read (`comment`) |
| user-defined type | the code of its class |
| self join, equal things | which side, which one |
| file metadata, `CHAR` | that a column describes the file; the length |
| watermark | its column, and on which branches it is |
| paths of rows | on which branch a filter or join is, the order of stages that drop rows, what is above a watermark |
| rows that reach a stage | what produces other rows, or more or fewer of them |

A filter written below a stage applies from now on. A stage added below another one starts empty. These spellings are equal: operands of
`+`, `*`, `=`, `and`, `or` in another order; `a < b` for `b > a`; values of `in` in another order; `'HOUR'` for `'hour'`; swapped sides of a
join with a table; aliases, views, SQL text for functions. Seeds of random functions do not count.

## How the rules are tested

Each rule names its source and its tests in `core/compatibility/rules/`. `make fuzz N=300` runs random pairs of versions and fails on one silently
wrong verdict, or over 1% refused that could continue. `make sweep` changes every built-in function, setting and Python construct.

What people change first (`tests/spark/first_changes.py`: 81 changes of 10 app shapes, 536 pairs; `make sweep ARGS="-k first_changes"`), on
30 November 2026: 357 pairs are carried by themselves, 111 with one flag, 10 with several, 58 are refused with a way on, none without.
"""


SETTINGS = """\
## Settings that change results

A session setting can change the result of an expression, a file or a query. For {count} settings this was measured. A query with state needs
agreement by the setting's name (`--agree windows:spark.sql.session.timeZone`), unless the setting provably changes nothing in both
versions (`streaming/planning/settings/unaffected.py`). These need agreement too:

| value | what depends on it |
|---|---|
| `python.timezone` (the machine's `TZ`) | timestamps that Python functions and data sources see |
| `python.imports` | effects of importing the app's modules, where Python takes part in the state |
| `jvm.locale` | how `upper`, `lower` and `initcap` write letters that are not ASCII |
| `jvm.timezone` (`TZ`, `-Duser.timezone`) | times of day in ORC and databases, times before 1900 in Parquet and Avro, `java_method`, `reflect`, `%t` |
| `default.parallelism` (`local[N]`, cores), `spark.sql.files.maxPartitionBytes` ..., `spark.sql.autoBroadcastJoinThreshold` below a lookup | how rows are divided, where something reveals it: `spark_partition_id`, `monotonically_increasing_id`, block starts, `mapInPandas`, `mapInArrow`, iterators, UDTFs |
| any other setting of SQL, a file format or Hadoop that was given | unknown. Hadoop's own files are not read |

No agreement is needed for what is in the offset log (Spark continues with that), and for these, which were measured or reviewed:
{harmless}.

Measured (*in the offset log*: Spark keeps the old value):

{rows}
"""


MEANINGS = {
    "values": "the result has other values",
    "types": "other types, names or number of columns",
    "errors": "an error under one of the values",
}


def page() -> str:
    sections = [_section(title, rules) for title, rules in TABLE.items()]
    place = list(TABLE).index("Watermarks and settings") + 1
    return "\n".join([HEAD, *sections[:place], _settings(), *sections[place:]])


def _settings() -> str:
    changes: dict[str, list[str]] = {}
    for setting in MEASURED.values():
        name = f"`{setting.key}`{' (in the offset log)' if setting.recorded else ''}"
        changes.setdefault(setting.change, []).append(name)
    rows = "\n".join(f"- {MEANINGS[change]}: {', '.join(names)}" for change, names in changes.items())
    harmless = ", ".join(f"`{key}{'*' if key.endswith('.') else ''}`" for key in HARMLESS)
    return SETTINGS.format(count=len(MEASURED), harmless=harmless, rows=rows)


def _section(title: str, rules: tuple[Rule, ...]) -> str:  # type: ignore[type-arg]
    rows = [f"| `{r.id}` | {r.change} | {_verdict(r)} |" for r in rules]
    return "\n".join([f"## {title}", "", "| rule | what changed | verdict |", "|---|---|---|", *rows, ""])


def _verdict(rule: Rule) -> str:  # type: ignore[type-arg]
    words = rule.verdict + (" (agreement)" if rule.verdict in NEEDS_AGREEMENT else "")
    return words + (", or migrated" if rule.migratable else "")


if __name__ == "__main__":
    PAGE.write_text(page())
