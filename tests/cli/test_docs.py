"""The documentation keeps up with the code. Its links and reference are checked by scripts/docs.sh."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from airflow_provider_streamupdate.cli import main

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]
PACKAGE = REPOSITORY / "airflow_provider_streamupdate"
CODE = [PACKAGE, *(REPOSITORY / name for name in ("tests", "scripts", "spark_apps", "dags", "benchmarks"))]
A_FILE = re.compile(r"(?<![\w./<>{}*~-])(?:[\w-]+/)*[\w-]+\.(?:py|md|sh|toml|yaml)\b(?![\w(/*])")
# Names that examples give to files of the reader's or of others.
EXAMPLES = re.compile(
    r"(.*/)?(v\d|app|trial|helpers|wrong|other|my_app\w*|test_orders|your_script|FIXED|load-spark-env|entrypoint)\.(py|sh)"
)


def comments(module: Path) -> str:
    """Return a module's docstrings and comments."""
    source = module.read_text()
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    lines = re.findall(r"^\s*#.*|  # .*", source, re.MULTILINE)
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *lines])


def test_every_file_that_a_page_or_a_docstring_names_exists() -> None:
    places = [*CODE, DOCS, REPOSITORY / "requirements"]
    files = [file.relative_to(REPOSITORY).parts for place in places for file in place.rglob("*.*")]
    known = {"/".join(parts[start:]) for parts in files for start in range(len(parts))}
    known |= {file.name for file in REPOSITORY.glob("*.*")}

    def unknown(text: str) -> set[str]:
        return {name for name in A_FILE.findall(text) if name not in known and not EXAMPLES.fullmatch(name)}

    missing = {page: unknown(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)) for page in PAGES}
    for module in (file for folder in CODE for file in folder.rglob("*.py") if "node_modules" not in file.parts):
        if unknown(module.read_text()):
            missing[module] = unknown(comments(module))
    assert {str(file.relative_to(REPOSITORY)): names for file, names in missing.items() if names} == {}
    assert unknown("core/no_such_file.py and engine.py") == {"core/no_such_file.py"}


def test_the_picture_of_the_parts_names_folders_that_exist() -> None:
    picture = (DOCS / "architecture.md").read_text().split("```text")[1].split("```")[0]
    folders = set(re.findall(r"(?<![\w/])(\w+)/(?=\s)", picture))
    assert len(folders) > 30
    assert folders <= {folder.name for folder in PACKAGE.rglob("*") if folder.is_dir()}


def test_the_walk_of_an_update_names_functions_that_exist() -> None:
    walk = re.findall(r"^\| \d+ \| `(\S+\.py): ([\w.]+)` \|", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    assert 10 <= len(walk) <= 15
    for file, name in walk:
        body = ast.parse((PACKAGE / file).read_text()).body
        for part in name.split("."):
            [found] = [n for n in body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == part] or [None]
            assert found is not None, f"{file} has no {name}"
            body = found.body


@pytest.mark.parametrize("name", main.commands)
def test_every_command_and_option_is_described(name: str) -> None:
    text = (DOCS / "cli.md").read_text()
    assert f"`{name}" in text
    for parameter in main.commands[name].params:
        for option in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), option


@pytest.mark.parametrize("package", ["operators", "sensors"])
def test_every_operator_and_sensor_and_its_arguments_are_described(package: str) -> None:
    text = "\n".join(p.read_text() for p in (DOCS / package).glob("*.md"))
    described = 0
    for module in (REPOSITORY / "airflow_provider_streamupdate" / package).glob("*.py"):
        if module.stem in ("base", "application"):
            continue
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef):
                assert re.search(rf"^#+ {node.name}$", text, re.MULTILINE), node.name
                described += 1
                [init] = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"] or [None]
                for argument in init.args.kwonlyargs if init else ():
                    assert f"`{argument.arg}`" in text, f"{node.name}.{argument.arg}"
    assert described >= 2


def messages() -> Iterator[str]:
    """Every text in the package's code but docstrings, with a ... for each value that is put into it."""
    for module in (REPOSITORY / "airflow_provider_streamupdate").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(module.read_text())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(v.value) if isinstance(v, ast.Constant) else "..." for v in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield re.sub(r"\{\w*\}", "...", node.value)  # the rules' reasons


def test_every_message_in_troubleshooting_is_one_of_the_code() -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    quoted = [m for h in re.findall(r"^### (.*`.*)$", text, re.MULTILINE) for m in re.findall(r"`([^`]+)`", h)]
    assert len(quoted) >= 30
    known = "\0".join(messages())
    for message in quoted:
        parts = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
        assert parts, message
        # what stands for a value may be anything within one message
        assert re.search(r"[^\0]*".join(parts), known), f"no error says: {message}"


def test_commands_in_the_guides_have_options_that_exist() -> None:
    """In a fenced block every streamupdate command, whole lines and continued ones."""
    seen = set()
    for page in (DOCS / "guides").glob("*.md"):
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = line.split("#")[0].split()
                if words[:1] != ["streamupdate"]:
                    continue
                command = main.commands[words[1]]
                if isinstance(command, click.Group):
                    command = command.commands[words[2]]
                options = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
                used = {w for w in words if w.startswith("--")}
                assert used <= options, (page.name, line)
                seen.add(words[1])
    assert {"update", "rollback", "adopt", "check", "rehearse"} <= seen
