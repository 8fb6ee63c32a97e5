"""What pause.py measured: tables in Markdown, and a plot (SVG) of pause against state size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from operator import sub, truediv
from typing import Any
from xml.sax.saxutils import escape

from airflow_rows import AIRFLOW, BESIDE_AIRFLOW
from flink_rows import CANONICAL, CLI, NATIVE
from spark_rows import INTERVAL_SECONDS, NAIVE, NAIVE_BESIDE, PARTS, SAME_SESSION

from airflow_provider_streamupdate.control.update.strategies.follow import Follow
from airflow_provider_streamupdate.control.update.strategies.restart import Restart
from airflow_provider_streamupdate.control.update.strategies.standby import Standby

TITLES = {
    NAIVE: "Spark, stopped and submitted again",
    NAIVE_BESIDE: "Spark, submitted beside the running version",
    Restart.name: "ours, `restart`",
    Standby.name: "ours, `standby`",
    Follow.name: "ours, `follow`",
    SAME_SESSION: "Spark, same session (no update)",
    CLI: "Flink, command line",
    CANONICAL: "Flink, REST, canonical savepoint",
    NATIVE: "Flink, REST, native savepoint",
    BESIDE_AIRFLOW: "ours, `standby`, an Airflow beside it",
    AIRFLOW: "the same, by that Airflow",
}
COLOURS = {
    NAIVE: "#8c8c8c",
    Restart.name: "#4c78a8",
    Standby.name: "#d62728",
    Follow.name: "#7b3fa0",
    SAME_SESSION: "#bdbdbd",
    CLI: "#e7ba52",
    CANONICAL: "#2ca02c",
    NATIVE: "#17807e",
}

Measured = Sequence[Mapping[str, Any]]


class Report:
    """Records of pause.py: {row, keys, seconds, live?, whole?, parts?, load}."""

    def __init__(self, records: Measured) -> None:
        self.records = records
        self.sizes = sorted({int(r["keys"]) for r in records})
        self.rows = [row for row in TITLES if any(r["row"] == row for r in records)]
        self.pausing = [row for row in self.rows if row != NAIVE_BESIDE]  # it updates nothing

    def markdown(self) -> str:
        parts = (self._parts(strategy) for strategy in (Standby.name, Follow.name))
        tables = (self._pauses(), self._goals(), self._lives(), self._wholes(), *parts, self._conditions())
        return "\n\n".join(filter(None, tables))

    def median(self, row: str, keys: int) -> float | None:
        seconds = self._seconds(row, keys)
        return statistics.median(seconds) if seconds else None

    def _seconds(self, row: str, keys: int) -> list[float]:
        return [r["seconds"] for r in self.records if (r["row"], r["keys"]) == (row, keys)]

    def _lives(self) -> str:
        """From the command to the new version's first commit, beside a plain start to its first commit."""

        def seconds(row: str, keys: int) -> list[float]:
            key = "whole" if row == NAIVE else "live"
            return [r[key] for r in self.records if (r["row"], r["keys"]) == (row, keys) and key in r]

        rows = [row for row in self.rows if any(seconds(row, s) for s in self.sizes)]
        if rows in ([], [NAIVE]):
            return ""
        title = "command to new version live, seconds"
        lines = [_line(title, *(f"{s:,} keys" for s in self.sizes)), _rule(1 + len(self.sizes))]
        lines += [_line(TITLES[row], *(_shown(seconds(row, s)) for s in self.sizes)) for row in rows]
        for above, below, name in (
            (Standby.name, NAIVE_BESIDE, "a plain start beside the running version"),
            (Standby.name, NAIVE, "a plain start on an idle machine"),
            (Follow.name, Standby.name, "`standby`"),
        ):
            pairs = [(seconds(above, s), seconds(below, s)) for s in self.sizes]
            cells = [f"{statistics.median(a) / statistics.median(b):.3g}" if a and b else "" for a, b in pairs]
            if any(cells):
                lines.append(_line(f"goal: {TITLES[above]} / {name}, at most 2", *cells))
        return "\n".join(lines)

    def _wholes(self) -> str:
        """From the command until promoted, and its goals. By Airflow: more than the command beside it, in seconds."""
        found = {
            (row, s): [r["whole"] for r in self.records if (r["row"], r["keys"]) == (row, s) and "whole" in r]
            for row in self.rows
            for s in self.sizes
        }
        rows = [row for row in self.rows if any(found[row, s] for s in self.sizes)]
        if not rows:
            return ""
        lines = [
            _line("command to promoted, seconds", *(f"{s:,} keys" for s in self.sizes)),
            _rule(1 + len(self.sizes)),
        ]
        lines += [_line(TITLES[row], *(_shown(found[row, s]) for s in self.sizes)) for row in rows]

        def compared(above: str, below: str, how: Callable[[float, float], float]) -> list[str]:
            pairs = [(found.get((above, s)), found.get((below, s))) for s in self.sizes]
            return [f"{how(statistics.median(a), statistics.median(b)):.3g}" if a and b else "" for a, b in pairs]

        goals = {
            f"goal: {TITLES[row]} / spark-submit, at most 2": compared(row, NAIVE, truediv)
            for row in (Standby.name, Restart.name)
        }
        goals["goal: by Airflow, at most 15 s more"] = compared(AIRFLOW, BESIDE_AIRFLOW, sub)
        return "\n".join([*lines, *(_line(goal, *told) for goal, told in goals.items() if any(told))])

    def _pauses(self) -> str:
        lines = [_line("pause, seconds", *(f"{size:,} keys" for size in self.sizes)), _rule(1 + len(self.sizes))]
        lines += [_line(TITLES[row], *(_shown(self._seconds(row, s)) for s in self.sizes)) for row in self.pausing]
        return "\n".join(lines)

    def _goals(self) -> str:
        """Each goal as a ratio of medians, by size; the goal's bound is in its name."""
        first = self.sizes[0]

        def ratio(above: float | None, below: float | None) -> str:
            return "" if above is None or not below else f"{above / below:.3g}"

        def flink(keys: int) -> float | None:
            return min((m for row in (CLI, CANONICAL, NATIVE) if (m := self.median(row, keys))), default=None)

        median = self.median
        goals = {
            "standby / Flink's best row, at most 1": [ratio(median(Standby.name, s), flink(s)) for s in self.sizes],
            "follow / Flink's best row, at most 1": [ratio(median(Follow.name, s), flink(s)) for s in self.sizes],
            f"follow, seconds, at most {INTERVAL_SECONDS + 0.1}": [
                "" if (m := median(Follow.name, s)) is None else f"{m:.3g}" for s in self.sizes
            ],
            "standby / naive, at most 0.067": [ratio(median(Standby.name, s), median(NAIVE, s)) for s in self.sizes],
            "restart / naive, at most 1.1": [ratio(median(Restart.name, s), median(NAIVE, s)) for s in self.sizes],
            "by Airflow / command line, at most 1.1": [
                ratio(median(AIRFLOW, s), median(BESIDE_AIRFLOW, s)) for s in self.sizes
            ],
            **{
                f"{strategy} / that of {first:,} keys, at most {most}": [
                    "" if s == first else ratio(median(strategy, s), median(strategy, first)) for s in self.sizes
                ]
                for strategy, most in ((Standby.name, 1.2), (Follow.name, 1.1))
            },
        }
        lines = [_line("goal", *(f"{size:,} keys" for size in self.sizes)), _rule(1 + len(self.sizes))]
        lines += [_line(goal, *ratios) for goal, ratios in goals.items() if any(ratios)]
        return "\n".join(lines)

    def _parts(self, strategy: str) -> str:
        found = [r for r in self.records if r["row"] == strategy and r.get("parts")]
        if not found:
            return ""
        lines = [_line(f"of `{strategy}`'s pause", *(f"{s:,} keys" for s in self.sizes)), _rule(1 + len(self.sizes))]
        for part in PARTS:
            cells = [_shown([r["parts"][part] for r in found if r["keys"] == s]) for s in self.sizes]
            lines.append(_line(part, *cells))
        return "\n".join(lines)

    def _conditions(self) -> str:
        loads = [r["load"] for r in self.records]
        return f"Load of the machine before an update (1 minute): {statistics.median(loads):.1f} ({_range(loads)})."

    def svg(self) -> str:
        """Medians with their ranges, both axes logarithmic."""
        rows = [row for row in self.pausing if row in COLOURS]
        seconds = [s for row in rows for size in self.sizes for s in self._seconds(row, size)]
        plot = Plot(self.sizes, seconds)
        parts = plot.frame()
        labels: list[tuple[float, str, str]] = []
        for number, row in enumerate(rows):
            points = [(plot.x(s) + 2 * number - len(rows), plot.y(m)) for s in self.sizes if (m := self.median(row, s))]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            width = 3 if row == Standby.name else 1.8
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[row]}" stroke-width="{width}"/>')
            for size in self.sizes:
                if found := self._seconds(row, size):
                    x, top, bottom = plot.x(size) + 2 * number - len(rows), plot.y(max(found)), plot.y(min(found))
                    parts.append(
                        f'<path d="M{x:.1f},{top:.1f}V{bottom:.1f}" stroke="{COLOURS[row]}" stroke-width="1.2"/>'
                        f'<circle cx="{x:.1f}" cy="{plot.y(statistics.median(found)):.1f}" r="3.5" '
                        f'fill="{COLOURS[row]}"/>'
                    )
            labels.append((points[-1][1], TITLES[row].replace("`", ""), COLOURS[row]))
        at = -math.inf
        for y, text, colour in sorted(labels):
            at = max(y, at + 15)
            parts.append(f'<text x="{plot.right + 12}" y="{at + 4:.1f}" fill="{colour}">{escape(text)}</text>')
        return plot.document(parts)


class Plot:
    """Two logarithmic axes."""

    left, top, right, bottom, width, height = 70, 44, 430, 330, 700, 390

    def __init__(self, sizes: Sequence[int], seconds: Sequence[float]) -> None:
        self.sizes = sizes
        self.low, self.high = min(*seconds, 0.5) * 0.8, max(*seconds, 2.0) * 1.15

    def x(self, keys: int) -> float:
        first, last = math.log(self.sizes[0]), math.log(self.sizes[-1])
        share = 0.5 if last == first else (math.log(keys) - first) / (last - first)
        return self.left + 20 + share * (self.right - self.left - 40)

    def y(self, seconds: float) -> float:
        share = math.log(seconds / self.low) / math.log(self.high / self.low)
        return self.bottom - share * (self.bottom - self.top)

    def frame(self) -> list[str]:
        middle = (self.left + self.right) / 2
        parts = [
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{self.left}" y="24" font-weight="bold">Pause of an update, seconds (log-log)</text>',
            f'<text x="{middle}" y="{self.height - 12}" text-anchor="middle">keys in the state</text>',
        ]
        for mark in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100):
            if self.low <= mark <= self.high:
                y = self.y(mark)
                parts.append(
                    f'<path d="M{self.left},{y:.1f}H{self.right}" stroke="#e3e3e3"/>'
                    f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>'
                )
        for size in self.sizes:
            parts.append(
                f'<path d="M{self.x(size):.1f},{self.bottom}v5" stroke="#555555"/>'
                f'<text x="{self.x(size):.1f}" y="{self.bottom + 20}" text-anchor="middle">{size:,}</text>'
            )
        parts.append(f'<path d="M{self.left},{self.top}V{self.bottom}H{self.right}" stroke="#555555" fill="none"/>')
        return parts

    def document(self, parts: Sequence[str]) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="sans-serif" font-size="12" fill="#333333">\n'
            + "\n".join(parts)
            + "\n</svg>\n"
        )


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _rule(columns: int) -> str:
    return f"|{'---|' * columns}"


def _shown(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({_range(seconds)}; {len(seconds)})" if seconds else ""


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}"
