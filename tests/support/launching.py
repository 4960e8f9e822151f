"""Processes of ``aitne-run`` for tests, and a check that none of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne_train.launcher.cleanup_process import MARK
from tests.support.alive import alive
from tests.support.waiting import eventually

RUN = [sys.executable, "-m", "aitne_train.launcher"]
PLACE = "import os, sys; rank = int(os.environ['RANK'])\n"
OUTER = ("AITNE_", "HOROVOD_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE")


def clean(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def run(
    *words: str, stdin: str = "", env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *words],
        input=stdin,
        env=env or clean(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def program(text: str) -> list[str]:
    return ["--", sys.executable, "-c", PLACE + text]


class StartedRun:
    """An ``aitne-run`` that runs beside the test. Its ranks say ``ready`` when they are."""

    def __init__(self, *words: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*RUN, *words], env=env or clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.pid = self.process.pid
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.decode().rstrip("\n"))

    def ready(self, ranks: int) -> list[int]:
        """Wait for all; the process of each."""
        eventually("the ranks are ready", lambda: len(self._pids()) == ranks)
        return [pid for _, pid in sorted(self._pids())]

    def _pids(self) -> list[tuple[int, int]]:
        found = [line.split() for line in self.said if line.startswith("ready ")]
        return [(int(rank), int(pid)) for _, rank, pid in found]

    def end(self, within_s: float = 60.0) -> tuple[int, str]:
        code = self.process.wait(within_s)
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        self._reader.join()
        self.process.stdout.close()  # type: ignore[union-attr]
        self.process.stderr.close()
        return code, errors


READY = "print('ready', rank, os.getpid(), flush=True)\n"
ON = READY + "import time; time.sleep(600)"


def of_runs() -> set[int]:
    """Return the processes that any run has started."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() + b"=" in (folder / "environ").read_bytes() and alive(
                int(folder.name)
            ):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check that no process and no file outlives its run."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    before = of_runs()
    yield
    eventually(
        "every process of the run is gone", lambda: not of_this_test(of_runs() - before, temporary)
    )
    eventually("every file of the run is gone", lambda: not leftover_files(temporary))


def of_this_test(pids: set[int], temporary: Path) -> list[int]:
    """Return those of the processes that belong to this test, by its temporary folder."""
    found = []
    for pid in pids:
        try:
            if f"TMPDIR={temporary}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def leftover_files(temporary: Path) -> list[Path]:
    return [
        path
        for path in temporary.rglob("*")
        if not path.is_dir() or path.name.startswith("aitne-run-")
    ]


SAVES = (
    "import signal, time\n"
    "def save(number, frame):\n"
    "    print('saved', rank, flush=True); sys.exit(75)\n"
    "signal.signal(signal.SIGUSR1, save); signal.signal(signal.SIGTERM, save)\n"
)
