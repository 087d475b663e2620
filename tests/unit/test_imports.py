"""Imports go one way through the rooms, never in a circle, and never inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import orion_recall

PACKAGE = Path(next(iter(orion_recall.__path__))).resolve()

# From the ground up. A module may import from its own room and from those below it.
ROOMS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "errors foreground tasks values packages source_specs renderers telemetry text when atomic_file",
        "contracts profile scoring settings shipped postgres",
        "bus models engines interfaces",
        "client index graph",
        "sources memory decisions",
        "external recall",
        "serving evaluation sample prompt schemas",
        "console",
        "cli __main__",
    )
)
# Inside a package that has an order of its own: a module may import from its own part and from those before it.
PARTS: dict[str, tuple[str, ...]] = {
    "memory": ("", "extraction", "record", "names", "replicas", "forget", "transfer", "intake"),
    "index": ("", "embedded", "qdrant"),
}
# The package itself: its public names, each loaded when it is asked for.
FRONT_DOORS = frozenset(("__init__",))


def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name below it; a package stands for its `__init__`."""
    found: dict[str, ast.Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text("utf-8"), str(path))
    return found


def own_imports(found: Iterable[ast.AST], known: set[str]) -> set[str]:
    """The modules of the package that the imports among these are of."""
    names: set[str] = set()
    for node in found:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    own = {name.removeprefix("orion_recall.") for name in names if name.startswith("orion_recall.")}
    return {name if name in known else name.rpartition(".")[0] for name in own} - {""}


def room(module: str) -> int:
    top = module.partition(".")[0]
    places = [place for place, names in enumerate(ROOMS) if top in names]
    assert places, f"{module} is in no room: add it to ROOMS"
    return places[0]


def part_of(module: str) -> str:
    """The sub-package of a module: `record` of `memory.record.sql`, "" of `index.points`."""
    return ".".join(module.split(".")[1:-1])


@cache
def trees() -> dict[str, ast.Module]:
    return {name: tree for name, tree in modules().items() if name not in FRONT_DOORS}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Imports, functions and handlers of every module: the trees are walked once."""
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler
    return {name: [node for node in ast.walk(tree) if isinstance(node, kinds)] for name, tree in trees().items()}


@cache
def imports() -> dict[str, set[str]]:
    return {name: own_imports(found, set(trees())) for name, found in nodes().items()}


def test_the_walk_finds_the_package():
    assert {"errors", "recall", "recall.pipeline", "index.embedded.index", "client"} <= set(trees())
    assert imports()["recall.pipeline"] >= {"recall.search_pass", "profile", "values", "contracts"}


def test_imports_go_one_way_through_the_rooms():
    upwards = [
        f"{name} imports {other}"
        for name, others in imports().items()
        for other in others
        if room(other) > room(name)
    ]
    assert upwards == []


def test_no_module_imports_itself_in_a_circle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(error.args[1])}") from error


def test_no_package_imports_another_in_a_circle():
    between: dict[str, set[str]] = {}
    for name, others in imports().items():
        top = name.partition(".")[0]
        between.setdefault(top, set()).update({other.partition(".")[0] for other in others} - {top})
    try:
        TopologicalSorter(between).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of packages: {' -> '.join(error.args[1])}") from error


def test_the_parts_of_a_package_import_in_their_order():
    backwards: list[str] = []
    for package, order in PARTS.items():
        for name, others in imports().items():
            if name.partition(".")[0] != package:
                continue
            inside = [other for other in others if other.partition(".")[0] == package]
            backwards += [
                f"{name} imports {other}"
                for other in inside
                if order.index(part_of(other)) > order.index(part_of(name))
            ]
    assert backwards == []


def test_no_function_imports_a_module_of_our_own():
    inside = {
        f"{name}.{node.name}"
        for name, found in nodes().items()
        if any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in found)
        for node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and own_imports(ast.walk(node), set(trees()))
    }
    assert inside == set()


def test_every_module_begins_with_a_docstring():
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_no_module_and_package_share_a_name():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages & {path.stem for path in PACKAGE.glob("*.py")} == set()


def _keeps(handler: ast.ExceptHandler, kind: str) -> bool:
    """Whether it is for any error, and is not there to undo something before it raises the error again."""
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return kind == "Exception" or (kind == "BaseException" and not raises)


def test_catch_all_handlers_are_where_they_are_allowed():
    bare = {
        name
        for name, found in nodes().items()
        for node in found
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and _keeps(node, node.type.id)))
    }
    assert bare == {
        "memory.extraction.extractors",
        "memory.intake.handlers",
        "models.batching",
        "packages",
        "profile.watch",
        "serving.worker",
        "sources.further",
        "tasks",
    }
