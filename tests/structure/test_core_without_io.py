"""``core`` performs no I/O: it opens no file, reads no variable, asks no clock and starts nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "backend" / "aitne" / "core"

MODULES = frozenset(
    {"grp", "http", "pwd", "shutil", "subprocess", "tempfile", "time", "urllib.request"}
)
"""Modules that ``core`` does not import. ``socket`` is imported for the type of a connection."""
ATTRIBUTES = frozenset(
    {"environ", "getenv", "geteuid", "getuid", "urandom", "create_connection", "now", "utcnow"}
    | {"read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob", "stat"}
    | {"mkdir", "rmdir", "unlink", "touch", "exists", "is_file", "is_dir", "expanduser", "readlink"}
)


def io(source: str) -> Iterator[str]:
    """Yield each use of I/O in a module, as written."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield node.module
        elif (isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES) or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("open", "Path.home", "Path.cwd")
        ):
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "source", ["open('x')", "import subprocess", "from time import monotonic", "os.environ['HOME']"]
)
def test_io_is_found(source: str) -> None:
    assert list(io(source))


def test_core_performs_no_io() -> None:
    uses = {
        f"{path.relative_to(CORE)}: {use}"
        for path in CORE.rglob("*.py")
        for use in io(path.read_text())
    }
    assert not uses
