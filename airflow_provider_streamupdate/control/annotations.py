"""A compatibility report in the formats of code hosts and CI servers: GitHub's workflow commands, SARIF, JUnit."""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import attrs

from .. import __version__
from ..core.compatibility.report import CompatibilityReport
from ..core.compatibility.rules import NEEDS_AGREEMENT, TABLE
from ..core.compatibility.verdict import ReportItem

ERROR, WARNING, NOTE = "error", "warning", "note"
_NAMED = ("query", "stage", "source")  # the author's functions whose first argument is a name
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@attrs.frozen
class AppFile:
    """The application's file, and the lines in which it names its queries, stages and sources.

    path: as annotations name it, relative to the repository's folder
    """

    path: str
    lines: Mapping[tuple[str, str], int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, path: str, text: bytes) -> AppFile:
        """Read the names that are literals."""
        found: dict[tuple[str, str], int] = {}
        with contextlib.suppress(SyntaxError, ValueError):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    function = str(getattr(node.func, "id", getattr(node.func, "attr", None)))
                    if function in _NAMED:
                        found.setdefault((function, str(node.args[0].value)), node.lineno)
        return cls(path, found)

    def line(self, item: ReportItem) -> int | None:
        """Return the line of code that changed, or that names the thing, else its query; None: unknown."""
        for change in item.code:
            if change.file == self.path.rpartition("/")[2]:
                return change.line
        own = self.lines.get((item.thing, item.name.partition("/")[2]))
        return own or self.lines.get(("query", _query(item)))


def github(report: CompatibilityReport, file: AppFile) -> str:
    """Return workflow commands, which GitHub shows as annotations of a pull request's files."""
    lines = []
    for item in filter(_level, report.items):
        place = {"file": file.path, "line": file.line(item), "title": f"{item.thing} {item.name}: {item.verdict}"}
        properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items() if value is not None)
        command = {NOTE: "notice"}.get(_level(item), _level(item))
        lines.append(f"::{command} {properties}::{_data(_message(item))}")
    return "\n".join([*lines, _data(f"{report.app}: {report.outcome} with {report.source}")])


def sarif(report: CompatibilityReport, file: AppFile) -> str:
    """Return a SARIF 2.1.0 log: each rule of the table, and a result for each thing that changed."""
    rules = [_sarif_rule(rule) for rules in TABLE.values() for rule in rules]
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "streamupdate", "version": __version__, "rules": rules}
    results = [_sarif_result(item, file, index) for item in report.items if _level(item)]
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=2)


def junit(report: CompatibilityReport, file: AppFile) -> str:
    """Return JUnit's XML: a suite for each query, a failed case for each problem."""
    suites = ElementTree.Element("testsuites", name=_xml(report.app))
    queries: dict[str, list[ReportItem]] = {}
    for item in report.items:
        queries.setdefault(_query(item), []).append(item)
    for query, items in queries.items():
        count = {"tests": str(len(items)), "failures": str(sum(item.blocks for item in items))}
        suite = ElementTree.SubElement(suites, "testsuite", {"name": _xml(query), **count})
        for item in items:
            names = {"classname": _xml(f"{report.app}.{query}"), "name": _xml(f"{item.thing} {item.name}")}
            case = ElementTree.SubElement(suite, "testcase", {"file": _xml(file.path), **names})
            if item.blocks:
                failure = ElementTree.SubElement(case, "failure", type=item.verdict, message=_xml(item.reason))
                failure.text = _xml(_message(item))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode")


FORMATS: dict[str, Callable[[CompatibilityReport, AppFile], str]] = {"github": github, "sarif": sarif, "junit": junit}


def _level(item: ReportItem) -> str:
    """Return how serious it is; empty for what continues unchanged."""
    if item.blocks:
        return ERROR
    return WARNING if item.verdict in NEEDS_AGREEMENT else NOTE if item.changed else ""


def _message(item: ReportItem) -> str:
    return "\n".join([f"{item.thing} {item.name}: {item.reason}", *(f"- {step}" for step in item.next_steps)])


def _query(item: ReportItem) -> str:
    return re.split("[/:]", item.name, maxsplit=1)[0]


def _data(text: str) -> str:
    """Escape a command's message, as GitHub's runner reads it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _sarif_rule(rule: Any) -> dict[str, Any]:
    needs = ", which needs agreement" if rule.verdict in NEEDS_AGREEMENT else ""
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.change},
        "help": {"text": f"What changed: {rule.change}. Verdict: {rule.verdict}{needs}. Evidence: {rule.source}."},
    }


def _sarif_result(item: ReportItem, file: AppFile, index: Mapping[str, int]) -> dict[str, Any]:
    line, absolute = file.line(item), file.path.startswith("/")
    artifact = {"uri": f"{'file://' if absolute else ''}{quote(file.path)}"}
    place: dict[str, Any] = {"artifactLocation": artifact if absolute else {**artifact, "uriBaseId": "%SRCROOT%"}}
    rule = next((rule for rule in item.rules if rule in index and not rule.endswith(".same")), None)
    return {
        **({"ruleId": rule, "ruleIndex": index[rule]} if rule else {}),
        "level": _level(item),
        "message": {"text": _message(item)},
        "locations": [{"physicalLocation": {**place, **({"region": {"startLine": line}} if line else {})}}],
    }


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)
