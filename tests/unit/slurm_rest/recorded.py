"""The recorded answers of slurmrestd, by release, version and question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "slurm"
VERSIONS = [
    (folder.parents[1].name, int(folder.name.rpartition(".")[2]))
    for folder in sorted(ASSETS.glob("*/rest/v0.0.*"))
]
"""(release, the last number of the version) of everything that was recorded."""


def answer(release: str, version: int | None, name: str) -> tuple[int, Any]:
    """Return the status and the body of a recorded answer."""
    folder = ASSETS / release / "rest"
    path = (folder if version is None else folder / f"v0.0.{version}") / f"{name}.json"
    found = json.loads(path.read_text())
    return found["status"], found["body"]
