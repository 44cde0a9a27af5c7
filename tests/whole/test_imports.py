"""Who may import whom: no circles, and upwards only what is named here."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UPWARDS = {("amp_lint.run.session", "amp_lint.verify.gate")}
"""An import inside a function: for ``--fix --prove``; linting knows nothing of proofs."""
FLOORS = (
    ("__main__", "cli", "completions", "flake8", "explain", "why", "suspects", "watching"),
    ("census", "runtime", "server"),
    ("api", "verify"),
    ("arguments", "run", "pager"),
    ("report",),
    ("fixing",),
    ("engine",),
    ("directives", "docstrings"),
    ("handbook",),
    ("registry", "selection", "sieve"),
    ("rules",),
    ("rule",),
    ("edit",),
    ("model",),
    ("walk",),
    ("amp",),
    ("flow",),
    ("syntax",),
    ("text",),
    ("garbage", "mistake", "vocabulary", "_lazy"),
)
"""From the top: each may import from those below it, and from itself without a circle."""
MAX_FILES = 25
"""In one folder: what can be taken in at a look."""


def modules() -> dict[str, Path]:
    """All modules of the package by name, the rules as they are installed."""
    found = {}
    for folder, package in ((ROOT / "amp_lint", "amp_lint"), (ROOT / "rules", "amp_lint.rules")):
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(tree: ast.AST, package: str = "") -> Iterator[str]:
    """The modules of ours that code of a package imports, at any place but for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            names = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else base for name in names)
        else:
            yield from imported(node, package)


def all_imported(module: str) -> set[str]:
    package = module.rpartition(".")[0]  # no `__init__` of ours imports anything
    return set(imported(ast.parse(MODULES[module].read_text("utf-8")), package))


def arrows(module: str) -> set[str]:
    names = all_imported(module)
    return {name for name in names & MODULES.keys() if (module, name) not in UPWARDS} - {module}


@functools.cache
def graph() -> dict[str, set[str]]:
    return {module: arrows(module) for module in MODULES}


def test_there_is_no_circle() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def floor(module: str) -> int:
    room = module.split(".")[1] if "." in module else module
    return next(level for level, rooms in enumerate(FLOORS) if room in rooms)


def test_every_module_is_on_a_floor() -> None:
    assert all(floor(module) >= 0 for module in MODULES if module != "amp_lint")


def test_arrows_lead_downwards() -> None:
    pairs = [
        (m, name) for m, names in graph().items() for name in names if "amp_lint" not in (m, name)
    ]
    upwards = [f"{module} -> {name}" for module, name in pairs if floor(name) < floor(module)]
    assert not upwards


def test_what_may_lead_upwards_does() -> None:
    """An exception that nobody needs any more goes."""
    for module, name in UPWARDS:
        assert name in all_imported(module)


def test_folders_are_small() -> None:
    folders = {path.parent for path in MODULES.values()}
    assert not [f"{f}: {n}" for f in folders if (n := len([*f.glob("*.*")])) > MAX_FILES]


def test_each_room_says_what_it_answers() -> None:
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), name


def test_a_circle_is_seen() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
    code = (
        "def f():\n    from amp_lint import engine\nif TYPE_CHECKING:\n    import amp_lint.rule\n"
    )
    assert [*imported(ast.parse(code))] == ["amp_lint.engine"]
