"""Real ranks, started by hand as the documentation describes, and a notebook's shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from aitne_train.notebook import rank_group_connection_files
from tests.support.requirements import skip_modules_without

pytest_pycollect_makemodule = skip_modules_without("ipyparallel")


class Group:
    """Ranks that ``aitne-run`` started on this machine."""

    def __init__(self, folder: Path, ranks: int, **variables: str) -> None:
        self.folder = folder
        self.temporary = Path(tempfile.mkdtemp())  # a short path, for sockets
        self.variables = {
            rank_group_connection_files.FOLDER: str(folder),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(self.temporary),
            **variables,
        }
        self.log = folder.with_suffix(".log")
        launcher = (sys.executable, "-m", "aitne_train.launcher", "-np", str(ranks))
        engine = (sys.executable, "-m", "aitne_train.notebook.engine")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*launcher, "--network-interface", "lo", *engine],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while not (folder / rank_group_connection_files.CLIENT).exists():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def processes(self) -> list[psutil.Process]:
        """Return the processes that belong to the group, by their environment."""
        mark = f"{rank_group_connection_files.FOLDER}={self.folder}".encode()
        found = []
        for process in psutil.process_iter():
            try:
                if mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                    found.append(process)
            except OSError:
                continue
        return found

    def pid(self, rank: int) -> int:
        """Return the process id of a rank."""
        return rank_group_connection_files.read_ranks(
            rank_group_connection_files.read_file(self.folder, rank_group_connection_files.CLIENT)
        )[rank].pid

    def ended(self) -> int:
        """Wait until the group has ended, and return its exit code."""
        return self.process.wait(60)

    def stop(self) -> None:
        """End the group and wait for it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.ended()
        shutil.rmtree(self.temporary)


@pytest.fixture
def groups(tmp_path: Path) -> Iterator[Callable[..., Group]]:
    """Start groups that end with the test."""
    started: list[Group] = []

    def start(ranks: int, **variables: str) -> Group:
        started.append(Group(tmp_path / f"group-{len(started)}", ranks, **variables))
        return started[-1]

    yield start
    for group in started:
        group.stop()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """A group of two ranks for all tests of a module."""
    started = Group(tmp_path_factory.mktemp("ranks") / "group", 2)
    yield started
    started.stop()


class Notebook:
    """The shell of a notebook with the extension."""

    def __init__(self, shell: Any, capture: pytest.CaptureFixture[str]) -> None:
        self.shell = shell
        self._capture = capture

    def run(self, code: str) -> Any:
        """Execute a cell and return its value. Raises what the cell raises."""
        result = self.shell.run_cell(code)
        result.raise_error()
        return result.result

    def ranks(self, code: str, line: str = "") -> Any:
        """Execute a cell on ranks, and return its value as text."""
        value = self.run(f"%%distributed {line}\n{code}")
        return None if value is None else repr(value)

    def printed(self) -> str:
        """Return what was printed since the last call."""
        out, err = self._capture.readouterr()
        return out + err

    def wait_for(self, text: str) -> None:
        """Wait until a line has ``text``."""
        self._read_until(lambda lines: text in lines)

    def wait_for_all(self, text: str, count: int) -> None:
        """Wait until that many ranks have printed a line with ``text``, alone or folded."""
        folded = f"[0-{count - 1}] {text}"
        self._read_until(lambda lines: folded in lines or lines.count(f"] {text}") >= count)

    def _read_until(self, is_complete: Callable[[str], bool]) -> None:
        """Wait until what is printed from now on is complete."""
        lines = ""
        while not is_complete(lines):
            time.sleep(0.05)
            lines += self.printed()


@pytest.fixture
def harmless_interrupts() -> Iterator[None]:
    """Ignore an interrupt of this process that comes when no cell runs."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def notebooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[Group], Notebook]]:
    """Open notebooks whose kernels have the variables of a group."""
    from IPython.core.interactiveshell import InteractiveShell

    shells = []

    def opened(group: Group) -> Notebook:
        monkeypatch.setenv(rank_group_connection_files.FOLDER, str(group.folder))
        shell = InteractiveShell.instance()
        shell.history_manager.enabled = False
        shell.run_line_magic("load_ext", "aitne_train.notebook")
        shells.append(shell)
        return Notebook(shell, capsys)

    yield opened
    for shell in shells:
        shell.aitne_ranks._detach_group()
    InteractiveShell.clear_instance()


@pytest.fixture
def notebook(group: Group, notebooks: Callable[[Group], Notebook]) -> Notebook:
    """A notebook that uses the ranks of the module."""
    return notebooks(group)
