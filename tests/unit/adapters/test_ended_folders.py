"""The folder of an ended job: what stays, what it takes, and its removal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from aitne.adapters import ended_job_folders, job_files
from aitne.agent import attempt_fence
from aitne.core.errors import InvalidInput, StorageFull, Unavailable
from aitne.core.ports.job_files import FolderRemoval, FolderSize, JobLocation
from tests.support.mounts import mounted


@pytest.fixture
def place(tmp_path: Path) -> JobLocation:
    job_id = uuid4()
    folder = tmp_path / "jobs" / str(job_id)
    return JobLocation(job_id=job_id, attempt=2, folder=str(folder))


def ended(place: JobLocation, tasks: int = 0) -> Path:
    """Create the folder of an attempt as an ended job leaves it."""
    job_files.create_attempt_folder(
        place,
        {
            "script.sh": b"x",
            "agent.json": b"{}",
            "token": b"s",
            "slurm_script": b"",
            "command-1": b"",
        },
    )
    folder = Path(str(place.directory))
    for task in range(tasks) if tasks else (None,):
        attempt_fence.take_fence(str(folder), task, "7", 0)
        attempt_fence.write_outcome(str(folder), task, "7", 0, 0, interrupted=False)
        name = "output.log" if task is None else f"output-{task}.log"
        (folder / name).write_bytes(b"said\n")
        if task is not None:
            (folder / f"params-{task}.json").write_text("{}")
    (folder / "run" / "0").mkdir(parents=True)
    (folder / "run" / "0" / "n1.json").write_text("{}")
    return folder


def inodes(folder: str) -> int:
    found = {os.stat(folder).st_ino}
    for path, folders, names in os.walk(folder):
        found |= {os.lstat(os.path.join(path, name)).st_ino for name in (*folders, *names)}
    return len(found)


def test_four_inodes_remain_of_an_ended_job(place: JobLocation) -> None:
    folder = ended(place)
    size = ended_job_folders.remove_unneeded_files(place)
    assert sorted(os.listdir(folder)) == ["fence", "output.log"]
    assert size is not None
    assert size.files == inodes(place.folder) == 4
    assert size.size_bytes >= 2 * 4_096
    assert job_files.read_log(place, None, offset=0, limit=9).data == b"said\n"
    held = job_files.read_fence(place, None)
    assert held is not None
    assert held.owner == "7"
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(folder), None, "8", 0)
    assert ended_job_folders.remove_unneeded_files(place) == size  # a second call changes nothing


def test_tasks_keep_their_logs_and_users_their_files(place: JobLocation) -> None:
    first = JobLocation(job_id=place.job_id, attempt=1, folder=place.folder)
    ended(first)
    folder = ended(place, tasks=2)
    (folder / "model.pt").write_bytes(bytes(8_192))
    checkpoints = Path(place.folder) / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "step-1").write_bytes(bytes(100_000))
    later = JobLocation(job_id=place.job_id, attempt=3, folder=place.folder)
    ended(later)
    size = ended_job_folders.remove_unneeded_files(place)
    assert sorted(os.listdir(folder)) == [
        *("fence-0", "fence-1", "model.pt", "output-0.log", "output-1.log")
    ]
    assert sorted(os.listdir(str(first.directory))) == ["fence", "output.log"]
    assert "agent.json" in os.listdir(str(later.directory))  # this attempt may still run
    assert size is not None
    assert size.size_bytes > 100_000
    assert (checkpoints / "step-1").exists()


def test_a_folder_is_removed_with_all_that_is_in_it_and_nothing_else(
    place: JobLocation, tmp_path: Path
) -> None:
    folder = ended(place)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "thesis.tex").write_text("years of work")
    (folder / "link").symlink_to(outside)
    (Path(place.folder) / "3").symlink_to(outside)
    locked = folder / "locked"
    (locked / "below").mkdir(parents=True)
    (locked / "below").chmod(0o000)
    locked.chmod(0o500)
    other = Path(place.folder).parent / str(uuid4())
    other.mkdir()
    for _ in range(5):
        if (removal := ended_job_folders.remove_job_folder(place)).done:
            break
    assert removal == FolderRemoval(done=True)
    assert not Path(place.folder).exists()
    assert (outside / "thesis.tex").read_text() == "years of work"
    assert other.exists()
    assert ended_job_folders.remove_job_folder(place) == FolderRemoval(done=True)
    assert ended_job_folders.remove_unneeded_files(place) == FolderSize(size_bytes=0, files=0)


def test_a_job_folder_that_is_a_link_is_not_followed(place: JobLocation, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "2").mkdir(parents=True)
    (outside / "2" / "agent.json").write_text("{}")
    Path(place.folder).parent.mkdir()
    Path(place.folder).symlink_to(outside)
    with pytest.raises(Unavailable):
        ended_job_folders.remove_unneeded_files(place)
    assert ended_job_folders.remove_job_folder(place).done
    assert (outside / "2" / "agent.json").exists()
    assert not Path(place.folder).is_symlink()


def test_a_deep_and_a_large_folder_take_several_calls(place: JobLocation, monkeypatch: Any) -> None:
    folder = ended(place)
    where = os.open(folder, os.O_RDONLY)
    for _ in range(1_500):  # deeper than any path may be long
        os.mkdir("d", dir_fd=where)
        below = os.open("d", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = below
    os.close(where)
    assert ended_job_folders.remove_unneeded_files(place) is None
    assert "agent.json" not in os.listdir(folder)
    monkeypatch.setattr(ended_job_folders, "STEP_S", 0.0)
    assert ended_job_folders.remove_job_folder(place) == FolderRemoval(done=False)
    monkeypatch.undo()
    while not ended_job_folders.remove_job_folder(place).done:
        continue
    assert not Path(place.folder).exists()


def test_a_home_that_is_out_of_reach_proves_nothing(place: JobLocation) -> None:
    with pytest.raises(Unavailable):
        ended_job_folders.remove_unneeded_files(place)
    assert ended_job_folders.remove_job_folder(place) == FolderRemoval(
        done=True, root_visible=False
    )


def test_file_of_a_job_is_read_in_parts_without_following_links(place: JobLocation) -> None:
    folder = ended(place)
    (folder / "result.0").write_bytes(b"0123456789")
    (folder / "link").symlink_to(folder / "result.0")
    os.mkfifo(folder / "pipe")
    part = job_files.read_file(place, "result.0", offset=4, limit=3)
    assert part is not None
    assert (part.data, part.offset, part.size) == (b"456", 4, 10)
    for name in ("missing", "pipe", "run"):
        assert job_files.read_file(place, name, offset=0, limit=9) is None
    with pytest.raises(Unavailable):
        job_files.read_file(place, "link", offset=0, limit=9)
    with pytest.raises(InvalidInput):
        job_files.read_file(place, "../result.0", offset=0, limit=9)


def test_user_of_a_full_file_system_is_told_its_use_and_what_to_delete(tmp_path: Path) -> None:
    job_id = uuid4()
    with mounted(tmp_path / "home", "size=128k") as home:
        (home / "data").write_bytes(b"x" * (64 << 10))
        place = JobLocation(job_id=job_id, attempt=1, folder=f"{home}/.aitne/jobs/{job_id}")
        with pytest.raises(StorageFull) as full:
            job_files.create_attempt_folder(place, {"script.sh": b"x" * (256 << 10)})
    message = full.value.message
    assert "cannot be written: too little space is left (" in message
    assert f" of 128 KiB on the file system of {home}" in message
    assert "Delete files there" in message
    assert "`aitne rm`" in message
    assert "administrator" not in message
