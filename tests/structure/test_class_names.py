"""Each public class of the platform, the training runtime and the tools has a name of its own."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("backend/aitne", "runtime/aitne_train", "tools")
GENERATED = "backend/aitne/client/*records.py"
"""The SDK's records, which are named after the models whose data they have."""
EXCEPTIONS = {
    "Store": "the platform's database; in the training runtime, torch's word for keys and values"
}


def test_public_class_names_are_unique() -> None:
    generated = set(ROOT.glob(GENERATED))
    places = defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body if path not in generated else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    duplicates = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert duplicates.keys() == EXCEPTIONS.keys(), duplicates
