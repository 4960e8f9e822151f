"""The list of files that a job has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.agent import written


def _write(path: Path, content: str, modified: float) -> None:
    path.write_text(content)
    os.utime(path, (modified, modified))


def _names(folder: Path, given: set[tuple[float, str, int]]) -> list[str]:
    return [file["path"] for file in written.look(str(folder), 1_000, given)["files"]]


def test_uploaded_sources_are_not_outputs(tmp_path: Path) -> None:
    _write(tmp_path / "train.py", "import torch", 1_001)
    _write(tmp_path / "config.yml", "lr: 1", 1_001)
    given = written.stamps(str(tmp_path), 1_000)
    _write(tmp_path / "weights.pt", "0", 1_003)
    _write(tmp_path / "config.yml", "lr: 2", 1_002)
    assert _names(tmp_path, given) == ["weights.pt", "config.yml"]
    assert _names(tmp_path, set()) == ["weights.pt", "config.yml", "train.py"]


def test_all_files_of_a_large_tree_are_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "MOST_FILES", 2)
    for number in range(5):
        _write(tmp_path / f"{number}.py", "", 1_001 + number)
    given = written.stamps(str(tmp_path), 1_000)
    _write(tmp_path / "out", "1", 1_001)
    assert _names(tmp_path, given) == ["out"]
