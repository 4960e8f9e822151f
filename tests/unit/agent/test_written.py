"""The list of files that a job has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.agent import changed_files


def _start(folder: Path) -> float:
    """Return the time of the file system after the last change in the folder."""
    last = max(path.stat().st_ctime for path in folder.iterdir())
    while (began := changed_files.read_folder_time(str(folder)) or 0.0) <= last:
        continue
    return began


def _names(folder: Path, since: float) -> list[str]:
    return [file["path"] for file in changed_files.list_written_files(str(folder), since)["files"]]


def test_files_from_before_the_job_are_not_outputs(tmp_path: Path) -> None:
    for name in ("train.py", "config.yml", "script.sh"):
        (tmp_path / name).write_text("lr: 1")
    began = _start(tmp_path)
    (tmp_path / "weights.pt").write_text("0")
    (tmp_path / "config.yml").write_text("lr: 2")
    assert sorted(_names(tmp_path, began)) == ["config.yml", "weights.pt"]


def test_a_file_that_keeps_an_old_time_is_an_output(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    began = _start(tmp_path)
    (tmp_path / "unpacked").touch()
    os.utime(tmp_path / "unpacked", (1, 1))
    assert _names(tmp_path, began) == ["unpacked"]


@pytest.mark.parametrize("flags", [os.O_TMPFILE, 1 << 30])
def test_the_time_is_that_of_the_file_system_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", flags)
    (tmp_path / "before").touch()
    first = changed_files.read_folder_time(str(tmp_path)) or 0.0
    (tmp_path / "after").touch()
    assert (tmp_path / "before").stat().st_ctime <= first <= (tmp_path / "after").stat().st_ctime
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after", "before"]


def test_a_folder_without_room_for_a_file_has_no_time(tmp_path: Path) -> None:
    assert changed_files.read_folder_time(str(tmp_path / "none")) is None


def test_a_long_list_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_files, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}").touch()
    found = changed_files.list_written_files(str(tmp_path), 0.0)
    assert (len(found["files"]), found["cut"]) == (2, True)
