"""The local scheduler's records on disk."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers._local import job_records, runner_launcher
from aitne.adapters.schedulers._local.job_records import (
    LaunchFile,
    LocalJobRecord,
    Records,
    RunGrant,
    TaskOutcome,
    TaskState,
    write_job_files,
)
from aitne.adapters.schedulers._local.outcome import to_task_outcome
from aitne.core.jobs.states import TerminationReason
from tests.support.jobs import make_request

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def disk(tmp_path: Path) -> Records:
    found = Records(tmp_path / "local")
    found.prepare()
    return found


def record(tmp_path: Path, number: int, indices: tuple[int, ...] | None = None) -> LocalJobRecord:
    folder = str(tmp_path / "jobs" / str(number))
    request = make_request(files={"token": b"\xff\x00secret"}, job_dir=folder)
    return LocalJobRecord(number=number, indices=indices, submitted_at=NOW, request=request)


def test_a_record_comes_back_without_the_jobs_secrets(disk: Records, tmp_path: Path) -> None:
    one, two = record(tmp_path, 9), record(tmp_path, 10, (4, 5, 6))
    disk.create(two)
    write_job_files(one.request)
    disk.create(one)
    found, highest = disk.load()
    assert [each.number for each in found] == [9, 10]
    assert highest == 12
    assert found[1].request.job_id == two.request.job_id
    assert found[1].request.files == {}
    assert b"secret" not in (disk.jobs / "9" / "job.json").read_bytes()
    assert (tmp_path / "jobs" / "9" / "token").read_bytes() == b"\xff\x00secret"


def test_incomplete_job_record_is_deleted_and_unknown_one_kept(
    disk: Records, tmp_path: Path
) -> None:
    disk.create(record(tmp_path, 1))
    (disk.jobs / "2").mkdir()
    (disk.jobs / "2" / ".job.json.new").write_text("{")
    (disk.jobs / "7").mkdir()
    (disk.jobs / "7" / "job.json").write_text('{"number": "from the future"}')
    found, highest = disk.load()
    assert [each.number for each in found] == [1]
    assert highest == 7
    assert sorted(path.name for path in disk.jobs.iterdir()) == ["1", "7"]


@pytest.mark.parametrize("name", ["script.sh", "token", "job.json"])
def test_a_full_disk_leaves_nothing_half_done(
    disk: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = job_records.write_atomically

    def full(path: Path, content: bytes, **options: Any) -> None:
        if path.name == name:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, content, **options)

    monkeypatch.setattr(job_records, "write_atomically", full)

    def submit() -> None:
        submitted = record(tmp_path, 1)
        write_job_files(submitted.request)
        disk.create(submitted)

    with pytest.raises(OSError, match="No space"):
        submit()
    assert list(disk.jobs.iterdir()) == []


def test_state_and_launch_come_back(disk: Records) -> None:
    assert disk.read_state(3, None) == TaskState()
    ending = TaskOutcome(reason=TerminationReason.FAILED, exit_code=3, ended_at=NOW)
    state = TaskState(restart_count=1, closed_runs=2, ending=ending)
    disk.write_state(3, 8, state)
    assert disk.read_state(3, 8) == state
    launch = LaunchFile(grants=(RunGrant(node="n1", gpus=(0, 2)),))
    assert disk.read_launch(disk.create_run(3, 8, 0, launch)) == launch
    assert disk.read_launch(disk.run_dir(3, 8, 1)) is None


def test_a_run_is_given_up_once_and_only_if_nobody_has_it(tmp_path: Path) -> None:
    assert runner_launcher.close_unclaimed_run(tmp_path)
    assert runner_launcher.read_identity(tmp_path) is None
    assert not runner_launcher.close_unclaimed_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["runner.json"]


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert runner_launcher.read_json(path) is None
    for text in ("", '{"a": ', "[1]", "\0\0"):
        path.write_text(text)
        assert runner_launcher.read_json(path) is None


def test_a_run_without_legible_facts_was_lost() -> None:
    for facts in (None, {}, {"reason": "bribed", "ended_at": 1}, {"reason": "completed"}):
        ending = to_task_outcome(facts, cancelled=False, started_at=NOW, now=NOW)
        assert ending.reason is TerminationReason.NODE_FAILED
        cancelled = to_task_outcome(facts, cancelled=True, started_at=NOW, now=NOW)
        assert cancelled.reason is TerminationReason.CANCELLED
    facts = {"reason": "completed", "exit_code": 0, "signal": None, "started_at": 1, "ended_at": 2}
    ending = to_task_outcome(facts, cancelled=True, started_at=NOW, now=NOW)
    assert (ending.reason, ending.exit_code) == (TerminationReason.COMPLETED, 0)
