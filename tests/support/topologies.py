"""Files of topologies in tests/assets."""

from __future__ import annotations

import json
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "assets" / "topologies"


def sysfs(folder: Path, record: Path = ASSETS / "sysfs" / "virtual-machine.json") -> Path:
    """Write a recorded ``/sys`` into a folder and return it."""
    content = json.loads(record.read_text())
    for name, text in content["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, target in content["links"].items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(folder / target)
    return folder
