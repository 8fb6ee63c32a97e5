"""How names and docstrings look: words and openings that say nothing stay out of the package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import airflow_provider_streamupdate

PACKAGE = Path(airflow_provider_streamupdate.__file__).parent
# Names that do not say what comes back, or what is done. Both lists may grow.
VAGUE = re.compile(
    r"_?(told|tells?|look(s|ing)?|found|made|make|given|sa(id|ys?)|asked|(un)?seen|few|done|gone|known|judged|going_back|"
    r"left_alone|itself|apart|each|ways?|plainly|around|under|beside|beyond|again|put_up|take_down|doubtful|untold|"
    r"uncollected|with_again|settled?|lost|quiet|usual(ly)?|worded)",
    re.IGNORECASE,
)
# A docstring begins with a verb in the imperative or with a noun, not with a fragment that needs the name before it.
FRAGMENT = re.compile(r"(Of|That|What|Whether it|Who|Which|In|As|So|For|By|With|Those|It|They|None|No|Where|When)\b")
MOST_PARAMETERS = 8
MOST_LINES = 60
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions() -> list[tuple[str, Definition]]:
    return [
        (f"{file.relative_to(PACKAGE)}:{node.lineno} {node.name}", node)
        for file in PACKAGE.rglob("*.py")
        if "node_modules" not in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, Definition)
    ]


DEFINITIONS = definitions()
FUNCTIONS = [(where, node) for where, node in DEFINITIONS if not isinstance(node, ast.ClassDef)]


def test_names_say_what_a_thing_is() -> None:
    assert len(DEFINITIONS) > 3000
    assert [where for where, node in DEFINITIONS if VAGUE.fullmatch(node.name)] == []


def test_docstrings_do_not_begin_as_fragments() -> None:
    texts = [(where, ast.get_docstring(node) or "") for where, node in DEFINITIONS]
    assert [f"{where}: {text[:60]}" for where, text in texts if FRAGMENT.match(text)] == []


def test_functions_fit_on_a_screen_and_many_parameters_are_an_options_class() -> None:
    lines = {where: (node.end_lineno or 0) - node.lineno + 1 for where, node in FUNCTIONS}
    assert {where: count for where, count in lines.items() if count > MOST_LINES} == {}
    # Not those of an operator's constructor, which Airflow takes one by one.
    counts = {
        where: len(node.args.args) + len(node.args.kwonlyargs) for where, node in FUNCTIONS if node.name != "__init__"
    }
    assert {where: count for where, count in counts.items() if count > MOST_PARAMETERS} == {}
