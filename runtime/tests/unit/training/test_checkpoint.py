"""A checkpoint is whole or not used; what is not whole is said, and the one before it is used."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aitne_train.checkpoint import Checkpointer, CheckpointError
from aitne_train.resume import Position, random_state, restore_random_state


def file_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:012d}.ckpt"


@pytest.fixture
def two(tmp_path: Path) -> Checkpointer:
    """Save the steps 10 and 20."""
    saver = Checkpointer(tmp_path)
    for step in (10, 20):
        saver.save({"step": step, "weights": torch.full((1000,), float(step))}, step)
    return saver


def test_gives_the_newest(two: Checkpointer) -> None:
    found = two.load_latest()
    assert found is not None
    assert found.step == 20
    assert torch.equal(found.state["weights"], torch.full((1000,), 20.0))
    assert found.own is None


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert Checkpointer(tmp_path / "not there").load_latest() is None
    assert not (tmp_path / "not there").exists()


@pytest.mark.parametrize("left", [0, 1, 40, 52, 53, 1000, 4000, -1, -31, -32, -33, -52, -53, -200])
def test_a_file_cut_anywhere_is_noticed(
    two: Checkpointer, left: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(two.folder, 20)
    os.truncate(file, left if left >= 0 else file.stat().st_size + left)
    found = two.load_latest()
    assert found is not None
    assert found.step == 10
    assert float(found.state["weights"][0]) == 10.0
    said = capsys.readouterr().err
    assert said.startswith(f"aitne: {file} is not used: it")
    assert said.count("\n") == 1


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.9, 0.99, 1.0])
def test_a_byte_that_changed_is_noticed(two: Checkpointer, place: float) -> None:
    file = file_of(two.folder, 20)
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 0x10
    file.write_bytes(content)
    found = two.load_latest()
    assert found is not None
    assert found.step == 10


def test_bytes_behind_the_end_are_noticed(two: Checkpointer) -> None:
    with file_of(two.folder, 20).open("ab") as file:
        file.write(bytes(100))
    found = two.load_latest()
    assert found is not None
    assert found.step == 10


def test_checkpoints_without_whole_file_raise_error(two: Checkpointer) -> None:
    for step in (10, 20):
        os.truncate(file_of(two.folder, step), 100)
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is complete"):
        two.load_latest()


def test_keeps_as_many_as_it_is_told_and_nothing_half_written(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path, keep=3)
    (tmp_path / ".step-000000000007.ckpt.tmp").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    for step in range(6):
        saver.save({"step": step}, step)
    assert sorted(os.listdir(tmp_path)) == [
        "notes.txt",
        *(f"step-{step:012d}.ckpt" for step in (3, 4, 5)),
    ]


def test_a_new_beginning_does_not_remove_what_a_longer_run_left(two: Checkpointer) -> None:
    for step in range(4):
        two.save({"step": step}, step)
    assert {file_of(two.folder, step).exists() for step in (2, 3, 10, 20)} == {True}
    assert not file_of(two.folder, 1).exists()


def test_saves_that_are_cut_off_again_and_again_leave_one_to_go_on_from(
    two: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (30, 40):
        two.save({"step": step}, step, own={"rank": 0})
    write = Checkpointer._write_file

    def full(self: Checkpointer, name: str, content: Any, parts: int) -> None:
        if ".rank-" not in name:
            raise CheckpointError("the disk is full")
        write(self, name, content, parts)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "_write_file", full)
        for step in (45, 47, 49):
            with pytest.raises(CheckpointError):
                two.save({"step": step}, step, own={"rank": 0})
    found = two.load_latest()
    assert found is not None
    assert (found.step, found.own) == (40, {"rank": 0})
    for step in (50, 60):
        two.save({"step": step}, step, own={"rank": 0})
    two.save({"step": 70}, 70, own={"rank": 0})
    own = sorted(path.name for path in two.folder.glob("*.rank-0.ckpt"))
    assert own == [f"step-{step:012d}.rank-0.ckpt" for step in (50, 60, 70)], "old parts go too"


def test_fewer_than_two_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        Checkpointer(tmp_path, keep=1)


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AITNE_CHECKPOINTS", str(tmp_path))
    Checkpointer().save([1], 0)
    assert file_of(tmp_path, 0).exists()
    monkeypatch.delenv("AITNE_CHECKPOINTS")
    with pytest.raises(ValueError, match="AITNE_CHECKPOINTS"):
        Checkpointer()


def test_rank_specific_state_is_restored(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path)
    saver.save({"all": 1}, 5, own={"mine": 2})
    found = saver.load_latest()
    assert found is not None
    assert (found.state, found.own) == ({"all": 1}, {"mine": 2})


def test_a_checkpoint_without_its_own_part_is_not_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saver = Checkpointer(tmp_path)
    for step in (1, 2):
        saver.save({"step": step}, step, own={"at": step})
    (tmp_path / "step-000000000002.rank-0.ckpt").unlink()
    found = saver.load_latest()
    assert found is not None
    assert (found.step, found.own) == (1, {"at": 1})
    assert "rank-0.ckpt is not used: No such file" in capsys.readouterr().err


def test_torch_reads_the_file_without_us(two: Checkpointer) -> None:
    assert torch.load(file_of(two.folder, 20), weights_only=True)["step"] == 20


class Strange:
    pass


def test_code_is_not_run_unless_that_is_wanted(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path)
    saver.save({"object": Strange()}, 1)
    with pytest.raises(CheckpointError, match="weights_only=False"):
        saver.load_latest()
    found = saver.load_latest(weights_only=False)
    assert found is not None
    assert isinstance(found.state["object"], Strange)


FULL = """
import resource, signal, sys, torch
from aitne_train.checkpoint import Checkpointer, CheckpointError
saver = Checkpointer(sys.argv[1])
saver.save({"step": 1}, 1)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)   # as on a full disk: the write fails
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    saver.save({"step": 2, "large": torch.zeros(1_000_000)}, 2)
except CheckpointError as error:
    print(error)
"""


def test_a_full_disk_is_said_and_leaves_what_was_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert f"{file_of(tmp_path, 2)} was not written: {os.strerror(errno.EFBIG)}" in done.stdout
    assert os.listdir(tmp_path) == [file_of(tmp_path, 1).name]
    found = Checkpointer(tmp_path).load_latest()
    assert found is not None
    assert found.step == 1


WRITER = """
import itertools, sys, torch
from aitne_train.checkpoint import Checkpointer
saver = Checkpointer(sys.argv[1])
for step in itertools.count():
    saver.save({"step": step, "weights": torch.full((300_000,), float(step))}, step)
"""


def test_killing_a_writer_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    until = time.monotonic() + 60
    while not file_of(tmp_path, 3).exists() and time.monotonic() < until:
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = Checkpointer(tmp_path).load_latest()
    assert found is not None
    assert float(found.state["weights"].mean()) == found.step == found.state["step"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="was not written"):
        Checkpointer(tmp_path / "file").save({}, 1)


def drawn() -> list[Any]:
    return [torch.rand(3).tolist(), random.random(), np.random.rand(3).tolist(), random.gauss(0, 1)]


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    saver = Checkpointer(tmp_path)
    drawn()
    saver.save({}, 1, own=random_state())
    expected = [drawn(), drawn()]
    torch.manual_seed(0)
    random.seed(0)
    found = saver.load_latest()
    assert found is not None
    restore_random_state(found.own)
    assert [drawn(), drawn()] == expected


def test_the_position_in_the_data_goes_on_where_it_was() -> None:
    def batches(position: Position, stop: int | None = None) -> list[list[int]]:
        seen: list[list[int]] = []
        loader = torch.utils.data.DataLoader(range(20), batch_size=6, sampler=position)
        for epoch in range(position.epoch, 3):
            position.begin(epoch)
            for batch in loader:
                seen.append(batch.tolist())
                position.trained(len(batch))
                if len(seen) == stop:
                    return seen
        return seen

    def fresh() -> Position:
        data: Any = range(20)
        sampler = torch.utils.data.DistributedSampler(data, 1, 0, seed=3)
        return Position(sampler)

    undisturbed = batches(fresh())
    assert len(undisturbed) == 12
    for stop in (1, 3, 4, 7):
        first, second = fresh(), fresh()
        before = batches(first, stop)
        second.load_state_dict(first.state_dict())
        assert before + batches(second) == undisturbed
