"""No modules of the platform import each other in a circle, deferred and type-only imports included.

import-linter leaves out what is under ``TYPE_CHECKING`` and finds circles between packages only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules(folder: Path) -> dict[str, Path]:
    """Return the modules below a folder: their files by their names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports at any place; ``from package import module`` is the module."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            start = parts[: len(parts) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{source}.{alias.name}"
                if name in known:
                    yield name
                elif source in known:
                    yield source


def import_graph(folder: Path) -> dict[str, set[str]]:
    """Return what each module below a folder imports of the others."""
    known = modules(folder)
    return {name: set(imported(name, path, known)) - {name} for name, path in known.items()}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], order[other])
        if lowest[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def write_modules(folder: Path, **sources: str) -> Path:
    """Write a package `sample` of modules with these sources; return the folder of the package."""
    package = folder / "sample"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    return folder


@pytest.mark.parametrize(
    "back",
    [
        "import sample.first",
        "from sample.first import value",
        "from sample import first",
        "from . import first",
        "from .first import value",
        "def later():\n    from sample import first",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import sample.first",
    ],
)
def test_circle_of_two_modules_is_found_for_each_kind_of_import(tmp_path: Path, back: str) -> None:
    folder = write_modules(tmp_path, first="from sample.second import value", second=back, third="")
    assert circles(import_graph(folder)) == [["sample.first", "sample.second"]]


def test_modules_that_import_one_way_are_no_circle(tmp_path: Path) -> None:
    folder = write_modules(
        tmp_path, first="from sample import second, third", second="from . import third", third=""
    )
    assert circles(import_graph(folder)) == []


def test_platform_has_no_import_circles() -> None:
    folders = (ROOT / "backend", ROOT / "runtime", ROOT / "tools")
    found = [circle for folder in folders for circle in circles(import_graph(folder))]
    assert not found, "modules import each other:\n" + "\n".join(map(", ".join, found))
