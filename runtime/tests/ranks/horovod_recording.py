"""The recorded answers of the real Horovod, in ``runtime/tests/assets/horovod``, and the sources they depend on.

The manifest has a SHA-256 of each source's code; comments and docstrings do not count. A recording is
current while all of them are the same: checking that needs neither PyTorch nor Horovod.
``scripts/record_horovod.py`` writes a recording.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.horovod_wheel import VERSION

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "runtime" / "tests" / "assets" / "horovod" / VERSION
MANIFEST = "manifest.json"
API = "api.json"
EXAMPLE = "example.txt"
REMEDY = (
    "Run `.venv/bin/python scripts/horovod_wheel.py` (5 minutes the first time) and "
    "`.venv/bin/python scripts/record_horovod.py`, and commit runtime/tests/assets/horovod."
)
_SOURCES = (
    # what the real Horovod is built from, and how: its version and features
    "scripts/horovod_wheel.py",
    # what its answers are compared by
    "runtime/tests/ranks/conformance*.py",
    "runtime/tests/ranks/horovod_answers.py",
    "runtime/examples/lenet5_horovod.py",
    "runtime/examples/digits_data.py",
    "runtime/examples/models.py",
    # the transport that uses it, which passes its tests before a recording is written
    "runtime/aitne_train/transport/base.py",
    "runtime/aitne_train/transport/horovod.py",
    "runtime/tests/ranks/test_horovod.py",
    "runtime/tests/ranks/test_transports.py",
    "runtime/tests/ranks/transport_work.py",
)


def checks_file(size: int) -> str:
    """Return the name of the file with the results of the checks on so many ranks."""
    return f"checks-{size}.json"


def sources(root: Path = ROOT) -> dict[str, str]:
    """Return the SHA-256 of the code of each source that a recording depends on, by its path."""
    paths = sorted(path for pattern in _SOURCES for path in root.glob(pattern))
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(
            repr(_code(ast.parse(path.read_bytes()))).encode()
        ).hexdigest()
        for path in paths
    }


def pinned_torch(root: Path = ROOT) -> str:
    """Return the version of PyTorch in ``constraints.txt``."""
    [version] = re.findall(r"(?m)^torch==(\S+)$", (root / "constraints.txt").read_text())
    return str(version)


def outdated(root: Path = ROOT, folder: Path = FOLDER) -> list[str]:
    """List what has changed since the recording was written.

    Args:
        root: the checkout.
        folder: the recording.

    Returns:
        Paths of sources that were changed, added or removed, and ``torch`` where its pin differs; all
        sources where there is no recording; empty if the recording is current.
    """
    path = folder / MANIFEST
    manifest = json.loads(path.read_text()) if path.exists() else {}
    recorded, now = manifest.get("sources", {}), sources(root)
    changed = [name for name in {**recorded, **now} if recorded.get(name) != now.get(name)]
    return sorted(changed + ["torch"] * (manifest.get("torch") != pinned_torch(root)))


def load(name: str) -> Any:
    """Read a file of the recording.

    Raises ``FileNotFoundError``, which names the remedy, where it was not recorded.
    """
    path = FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"Horovod {VERSION} has no recorded {name}. {REMEDY}")
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else text


def save(answers: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Write these files, by their names, in place of those in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, answer in answers.items():
        text = answer if isinstance(answer, str) else json.dumps(answer, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")


def _code(node: Any) -> Any:
    """Return a syntax tree without positions, docstrings and empty fields.

    Python releases add empty fields.
    """
    if isinstance(node, list):
        return [_code(each) for each in node if not _is_text(each)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, _code(value)) for name, value in ast.iter_fields(node) if value is not None]
    return type(node).__name__, [(name, code) for name, code in fields if code != []]


def _is_text(node: Any) -> bool:
    """Return whether the statement is a string by itself, such as a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
