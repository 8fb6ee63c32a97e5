"""Provisional."""

from __future__ import annotations

from .measured import Measured

MEASURED: dict[str, Measured] = {
    m.key: m
    for m in (
        Measured("spark.sql.ansi.enabled", "true", "false", "errors", "expression", "1/0"),
        Measured("spark.sql.caseSensitive", "false", "true", "errors", "query", "SELECT I FROM VALUES (1) AS t(i)"),
        Measured(
            "spark.sql.legacy.timeParserPolicy",
            "CORRECTED",
            "LEGACY",
            "values",
            "expression",
            "try_to_date('2020-1-1', 'yyyy-MM-dd')",
        ),
        Measured(
            "spark.sql.session.timeZone", "UTC", "Asia/Tokyo", "values", "expression", "hour(timestamp_seconds(0))"
        ),
        Measured(
            "spark.sql.streaming.multipleWatermarkPolicy",
            "min",
            "max",
            "values",
            "stream",
            "two watermarks",
            recorded=True,
        ),
    )
}
