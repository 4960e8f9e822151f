"""A run that was killed or preempted resumes and gives the same result as an undisturbed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import realtime

pytestmark = [
    pytest.mark.timeout(400),  # three times the start of torch on several ranks
    realtime.RANKS,
]

PROGRAM = Path(__file__).with_name("resume_program.py")
LAST = 20
OUTER = ("AITNE_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE")


def run(folder: Path, *words: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return subprocess.run(
        [
            *(sys.executable, "-m", "aitne_train.launcher", "-np", str(ranks)),
            *(sys.executable, str(PROGRAM), str(LAST), *words),
        ],
        env={**kept, "OMP_NUM_THREADS": "1", "AITNE_CHECKPOINTS": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def losses(done: subprocess.CompletedProcess[str]) -> dict[int, str]:
    """Return the loss of each step with all digits."""
    lines = (line.split() for line in done.stdout.splitlines())
    return {int(step): loss for step, loss in lines}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    done = run(tmp_path_factory.mktemp("undisturbed"))
    assert done.returncode == 0, done.stderr
    found = losses(done)
    assert list(found) == list(range(1, LAST + 1))
    return found


def test_a_killed_rank(undisturbed: dict[int, str], tmp_path: Path) -> None:
    killed = run(tmp_path, "die", "1", "11")
    assert killed.returncode == 128 + 9, killed.stderr
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    resumed = losses(again)
    assert min(resumed) in (7, 10), "from the last checkpoint that both ranks had"
    assert {**losses(killed), **resumed} == undisturbed


@pytest.mark.parametrize("told", ["0", "1"])
def test_a_preemption(undisturbed: dict[int, str], tmp_path: Path, told: str) -> None:
    """The signal reaches one rank; all end after the same step, with the status that says: go on later."""
    ended = run(tmp_path, "signal", told, "8")
    assert ended.returncode == 75, ended.stderr
    before = losses(ended)
    assert 8 <= max(before) < LAST
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    after = losses(again)
    assert min(after) == max(before) + 1, "no step twice and none left out"
    assert {**before, **after} == undisturbed


def test_a_checkpoint_cut_in_half(undisturbed: dict[int, str], tmp_path: Path) -> None:
    ended = run(tmp_path, "signal", "0", "8")
    assert ended.returncode == 75, ended.stderr
    newest = max(tmp_path.glob("step-????????????.ckpt"))
    os.truncate(newest, newest.stat().st_size // 2)
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"{newest} is not used: its end is missing" in again.stderr
    after = losses(again)
    assert min(after) <= max(losses(ended))
    assert {**losses(ended), **after} == undisturbed
