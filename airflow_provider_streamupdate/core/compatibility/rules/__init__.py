"""The compatibility rules: one table, each rule one entry with its verdict, reason, source and predicate.

`compatibility.compare` runs it; docs/compatibility.md is generated from it (scripts/compatibility_docs.py).
"""

from __future__ import annotations

from typing import Any

from .batch_ids import AGAIN_RULES, FORK_RULES, FRESH_RULES
from .query import APP_RULES, GONE_QUERY_RULES, NAME_RULES, NEW_QUERY_RULES, WATERMARK_RULES
from .rule import NEEDS_AGREEMENT, ORDER, Finding, Rule, judge, worst
from .settings.setting import OTHER_SETTING_RULES, SETTING_RULES
from .sink import SINK_RULES
from .sources.next_input import INPUT_RULES
from .sources.source import GONE_SOURCE_RULES, NEW_SOURCE_RULES, SOURCE_RULES
from .stages.lone_stage import GONE_STAGE_RULES, NEW_STAGE_RULES
from .stages.stage import STAGE_RULES
from .stages.store import STORE_RULES

# Everything, by what it is about.
TABLE: dict[str, tuple[Rule[Any], ...]] = {
    "Stages": (*STAGE_RULES, *NEW_STAGE_RULES, *GONE_STAGE_RULES),
    "State stores": STORE_RULES,
    "Watermarks and settings": (*WATERMARK_RULES, *SETTING_RULES, *OTHER_SETTING_RULES),
    "Sources": (*SOURCE_RULES, *NEW_SOURCE_RULES, *GONE_SOURCE_RULES),
    "Sinks and output modes": SINK_RULES,
    "Apps and queries": (*APP_RULES, *NEW_QUERY_RULES, *GONE_QUERY_RULES, *NAME_RULES),
    "Forks": FORK_RULES,
    "Tables that are read": INPUT_RULES,
    "Batches that run again": AGAIN_RULES,
    "Starts without state": FRESH_RULES,
}

__all__ = ["NEEDS_AGREEMENT", "ORDER", "TABLE", "Finding", "Rule", "judge", "worst"]
