"""What may import what, and who may know a strategy by its name (docs/architecture.md)."""

from __future__ import annotations

import ast
import inspect
import zipfile
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

import pytest

import airflow_provider_streamupdate
from airflow_provider_streamupdate.control.client import Operation, StreamUpdateClient
from airflow_provider_streamupdate.control.drivers import runtime
from airflow_provider_streamupdate.control.drivers.clusters import CLUSTERS
from airflow_provider_streamupdate.control.update.strategies import STRATEGIES

PACKAGE = Path(airflow_provider_streamupdate.__file__).parent
NAME = PACKAGE.name
Node = TypeVar("Node", bound=ast.AST)
FOLDER = PACKAGE / "control" / "update" / "strategies"
CLUSTER_FOLDER = PACKAGE / "control" / "drivers" / "clusters"
STORAGE_FOLDER = PACKAGE / "core" / "storage"


def module_of(file: Path) -> str:
    parts = (NAME, *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def nodes(kind: type[Node], *without: Path) -> Iterator[tuple[Path, Node, str]]:
    """The nodes of a kind in all files but those in some folders: the file, the node, and where it is."""
    for file in PACKAGE.rglob("*.py"):
        if not set(without) & set(file.parents):
            for node in (n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, kind)):
                line = getattr(node, "lineno", 0)
                yield file, node, f"{file.relative_to(PACKAGE)}:{line}: {ast.unparse(node)[:200]}"


def compared(node: ast.Compare) -> tuple[set[object], list[str]]:
    """The constants that are compared, and the operands as they are written."""
    operands = [node.left, *node.comparators]
    constants = {n.value for o in operands for n in ast.walk(o) if isinstance(n, ast.Constant)}
    return constants, [ast.unparse(o) for o in operands]


MODULES = {module_of(file): file for file in PACKAGE.rglob("*.py")}


def on_import(body: list[ast.stmt], for_types: bool = False) -> Iterator[ast.stmt]:
    """The statements that run on import. for_types: with those that a type checker alone reads."""
    for statement in body:
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test) and not for_types:
            continue
        yield statement
        for part in ("body", "orelse", "handlers", "finalbody"):
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                yield from on_import(getattr(statement, part, []), for_types)


def imports(module: str, for_types: bool = False, in_functions: bool = False) -> set[str]:
    """The modules of the package that importing this one imports, by name.

    for_types: and what its types are of; in_functions: all of these, and what its functions import when they are called
    """
    file, found = MODULES[module], set()
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(file.read_text())
    for statement in ast.walk(tree) if in_functions else on_import(tree.body, for_types):
        if isinstance(statement, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
            name = ".".join([*base, *([statement.module] if statement.module else [])])
            for alias in statement.names:
                found.add(f"{name}.{alias.name}" if f"{name}.{alias.name}" in MODULES else name)
        elif isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
    return {name for name in found if name in MODULES and name != module}


GRAPH = {module: imports(module) for module in MODULES}
GRAPH_OF_TYPES = {module: imports(module, for_types=True) for module in MODULES}
WHOLE_GRAPH = {module: imports(module, in_functions=True) for module in MODULES}


def test_there_is_no_circle_of_imports() -> None:
    """Nor one of imports that only a type checker follows, or that a function makes when it is called."""
    assert sum(map(len, WHOLE_GRAPH.values())) > sum(map(len, GRAPH_OF_TYPES.values())) > sum(map(len, GRAPH.values()))
    assert len(GRAPH) > 400
    try:
        list(TopologicalSorter(WHOLE_GRAPH).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from error


def test_arrows_point_down() -> None:
    """core knows nothing of the others; the driver's side and the control's do not know each other."""
    below = {
        "core": {"core"},
        "streaming": {"streaming", "core"},
        "control": {"control", "core"},
        "cli": {"cli", "control", "core", "pipelines"},
        "pipelines": {"pipelines", "control", "streaming", "core"},
    }
    for module, found in GRAPH.items():
        room = module.split(".")[1] if "." in module else ""
        for name in (n for n in found if "." in n and room in below):
            assert name.split(".")[1] in below[room], f"{module} imports {name}"


def test_who_may_know_of_pipelines_and_of_updates() -> None:
    # Its command and its operator; and what of it travels to the driver knows nothing of control.
    pipelines = f"{NAME}.pipelines"
    users = {m for m, found in GRAPH_OF_TYPES.items() if any(n.startswith(pipelines) for n in found)}
    outside = {m for m in users if not m.startswith(pipelines)}
    assert outside == {f"{NAME}.operators.pipeline", f"{NAME}.cli.commands.pipeline"}
    driver = with_all_it_imports(f"{pipelines}.driver.command_line")
    assert f"{pipelines}.record" in driver and not [m for m in driver if m.startswith(f"{NAME}.control")]
    # Of control's modules only those that look at an update's record, and the client, import from control.update.
    update = f"{NAME}.control.update"
    users = {
        m.removeprefix(f"{NAME}.control.") for m, found in GRAPH.items() if any(n.startswith(update) for n in found)
    }
    outside = {m for m in users if not m.startswith(("update", NAME))}
    assert outside == {"client", "history", "metrics", "overview", "status"}


def with_all_it_imports(module: str) -> set[str]:
    """The modules of the package that are there once this one is imported: those it imports, their packages, and so
    on."""
    found, left = set(), [module]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += [*GRAPH[name], *([name.rpartition(".")[0]] if "." in name else [])]
    return found


def imports_pyspark(module: str) -> bool:
    names: set[str] = set()
    for statement in on_import(ast.parse(MODULES[module].read_text()).body):
        if isinstance(statement, ast.ImportFrom) and not statement.level:
            names.add(str(statement.module))
        elif isinstance(statement, ast.Import):
            names |= {alias.name for alias in statement.names}
    return any(name.split(".")[0] in ("pyspark", "py4j") for name in names)


def test_the_life_of_a_driver_needs_no_spark() -> None:
    """It runs over any engine (`QueryEngine`); the one for Spark is where pyspark comes in."""
    streaming = f"{NAME}.streaming"
    lifecycle = with_all_it_imports(f"{streaming}.agent.lifecycle")
    assert f"{streaming}.engine.port" in lifecycle and streaming in lifecycle
    assert {m for m in lifecycle if imports_pyspark(m)} == set()
    assert f"{NAME}.streaming.restore.restorer" in {
        m for m in with_all_it_imports(f"{streaming}.engine.spark_engine") if imports_pyspark(m)
    }


CORE = (
    *("storage", "processes", "history", "difference", "plan", "checkpoint", "compatibility", "registry"),
    *("slo", "snapshots", "coordination"),
)
STREAMING = ("catalyst", "code", "spark_internals", "planning", "restore", "engine", "agent", "scripts")


@pytest.mark.parametrize(("side", "rooms"), [("core", CORE), ("streaming", STREAMING)])
def test_a_room_imports_from_those_before_it(side: str, rooms: tuple[str, ...]) -> None:
    """The order is the one in which a reader can read them. The modules beside core's rooms are below all of them;
    those beside streaming's are the author's API."""
    root, crossed = f"{NAME}.{side}.", 0
    found_rooms = {file.parent.name for file in (PACKAGE / side).glob("*/__init__.py")}
    assert found_rooms == set(rooms)
    for module, found in GRAPH.items():
        for name in (n for n in found if module.startswith(root) and n.startswith(root)):
            room, other = (each.removeprefix(root).split(".")[0] for each in (module, name))
            if room in rooms and other in rooms:
                crossed += room != other
                assert rooms.index(other) <= rooms.index(room), f"{module} imports {name}"
            elif side == "core" and room not in rooms:
                assert other not in rooms, f"{module} imports {name}"
    assert crossed > 20


def test_the_drivers_side_travels_to_it_whole(tmp_path: Path) -> None:
    """Wherever the module that makes the zip lies, and however deep the folders are."""
    with zipfile.ZipFile(runtime.build(tmp_path / "runtime.zip")) as archive:
        sent = {name for name in archive.namelist() if name.startswith(f"{NAME}/")}
    sides = [file for room in ("core", "streaming", "pipelines") for file in (PACKAGE / room).rglob("*.py")]
    assert sent == {f"{NAME}/{file.relative_to(PACKAGE)}" for file in [PACKAGE / "__init__.py", *sides]}


ROOMS_OF_CONTROL = {
    "attention": {"attention", "supervision"},
    "drivers": {"drivers"},
    "operations": {"operations", "drivers"},
    "update": {"update", "operations", "drivers"},
}


def test_arrows_point_down_within_control() -> None:
    """An update rests on operations, and these on drivers. What lies beside the rooms (waiting, holding the lease) is
    for all of them."""
    control = f"{NAME}.control."
    beside = {file.stem for file in (PACKAGE / "control").glob("*.py")} - {
        "attention",
        "client",
        "doctor",
        "history",
        "metrics",
        "overview",
        "status",
    }
    crossed = 0
    for module, found in GRAPH.items():
        room = module.removeprefix(control).split(".")[0]
        for name in (n for n in found if module.startswith(control) and n.startswith(control)):
            to = name.removeprefix(control).split(".")[0]
            if room in ROOMS_OF_CONTROL:
                crossed += room != to
                assert to in ROOMS_OF_CONTROL[room] | beside, f"{module} imports {name}"
            elif room in beside:
                assert to in beside, f"{module} imports {name}"
    assert crossed > 30


def test_a_cluster_is_known_by_its_name_in_its_folder_only() -> None:
    """What differs by cluster is asked of the cluster (`Cluster`)."""
    others = {c.name for c in CLUSTERS} - {"local"}
    assert others
    for _, node, where in nodes(ast.Compare, CLUSTER_FOLDER):
        constants, operands = compared(node)
        assert constants.isdisjoint(others), where
        assert not any(operand.endswith((".cluster", "launch.submitted")) for operand in operands), where
    inside = {m for m in MODULES if m.startswith(f"{NAME}.control.drivers.clusters.")}
    asked = {m for m, found in GRAPH.items() if found & inside and not m.startswith(f"{NAME}.control.drivers.clusters")}
    assert inside and not asked, "one comes in by the folder's door"


def test_a_storage_is_known_by_its_kind_in_its_folder_only() -> None:
    """Others ask a folder for what they mean (`links`, `path_here` ...), not where it lies, nor its backend."""
    looked_at = 0
    # the second folder: names of Python's own, local ones among them
    for _, node, where in nodes(ast.Attribute, STORAGE_FOLDER, PACKAGE / "streaming" / "code"):
        looked_at += 1
        assert node.attr != "local" or ast.unparse(node) == "threading.local", where
        assert not ast.unparse(node).endswith((".folder.fs", ".folder.backend")), where
    assert looked_at > 10_000
    inside = {m for m in MODULES if m.startswith(f"{NAME}.core.storage.backends.")}
    asked = {m for m, found in GRAPH.items() if found & inside and not m.startswith(f"{NAME}.core.storage")}
    assert inside and not asked, "one comes in by the folder's door"


def test_the_client_is_composed_of_operations() -> None:
    """It inherits nothing, and no operation knows it: each gets a context, which the client has."""
    assert StreamUpdateClient.__bases__ == (object,)
    operations = {name: each.function for name, each in vars(StreamUpdateClient).items() if isinstance(each, Operation)}
    assert {"submit", "save_snapshot", "update", "rollback", "status"} < set(operations)
    for name, function in operations.items():
        (first, *_) = inspect.signature(function).parameters.values()
        assert (first.name, first.annotation) == ("context", "Context"), name
    client = f"{NAME}.control.client"
    users = {m for m, found in GRAPH_OF_TYPES.items() if client in found}
    assert f"{NAME}.hooks.streamupdate" in users
    assert not [m for m in users if m.startswith((f"{NAME}.control.", f"{NAME}.core.", f"{NAME}.streaming."))]


def test_a_strategy_is_known_by_its_name_in_its_folder_only() -> None:
    """What differs by strategy is asked of the strategy: nobody else compares its name with anything."""
    looked_at = 0
    for file, node, where in nodes(ast.Compare, FOLDER):
        looked_at += 1
        constants, operands = compared(node)
        assert constants.isdisjoint(STRATEGIES), where
        asked = any(operand.endswith(".strategy") for operand in operands)
        assert not asked or file.name == "record.py", where  # those of two records
    assert looked_at > 1000


DOOR = PACKAGE / "streaming" / "spark_internals"
INSIDE = {"_jvm", "_jdf", "_jsc", "_jspark", "_jsparkSession", "_jwrite", "_jsq", "_gateway", "_jc"}


def test_nothing_else_touches_the_jvm_or_looks_behind_the_door() -> None:
    assert len(list(nodes(ast.Module, DOOR))) > 100
    for _, node, where in nodes(ast.Attribute, DOOR):
        assert node.attr not in INSIDE, where
    for _, node, where in nodes(ast.ImportFrom, DOOR):
        assert "spark_internals." not in (node.module or ""), where
