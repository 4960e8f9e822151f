"""The process that holds pyslurm: what becomes of a question when the library fails. A stand-in takes its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from aitne.adapters.command.local import LocalCommand
from aitne.adapters.job_files import OwnFiles
from aitne.adapters.schedulers._slurm.libslurm.pyslurm_client import Library, WorkerHello
from aitne.adapters.schedulers._slurm.libslurm.worker import FIELDS
from aitne.adapters.schedulers.pyslurm import PyslurmScheduler, check_pyslurm
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SchedulerUnavailable, SetupError
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.local_system.settings_loader import load_settings

PATIENCE_S = 60.0
STAND_IN = """\
import ctypes, os, sys, time
from types import SimpleNamespace

__version__ = "25.11.2"
ctypes.CDLL = lambda _: SimpleNamespace(slurm_api_version=type("F", (), {"__call__": lambda _: 45 << 16})())

class PyslurmError(Exception):
    pass

class Job:
    pass

for field in FIELDS:
    setattr(Job, field, "aitne:x" if field == "comment" else os.environ.get("SLURM_CONF"))

class Jobs:
    @staticmethod
    def load():
        other = Job()
        other.comment = None
        return {1: Job(), 2: other}
"""
Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put the stand-in, with lines after it, where the process finds it."""

    def put(more: str) -> None:
        text = f"FIELDS = {FIELDS!r}\n{STAND_IN}\n{more}\n"
        (tmp_path / "pyslurm.py").write_text(text)

    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return put


async def test_library_reports_version_and_own_jobs_only(install: Install) -> None:
    install("")
    library = Library(Path("/etc/slurm/slurm.conf"))
    hello = await library.restart()
    assert hello == WorkerHello(pyslurm="25.11.2", interface=45, missing=())
    check_pyslurm(hello)
    for _ in range(2):
        (record,) = map(json.loads, await library.query_jobs(PATIENCE_S))
        assert (record["comment"], record["id"]) == ("aitne:x", "/etc/slurm/slurm.conf")
    await library.close()


async def test_a_slurm_that_does_not_answer_is_told_and_asked_again(install: Install) -> None:
    install(
        "def load():\n if not os.path.exists(__file__ + 'up'):\n"
        "  raise PyslurmError('Unable to contact slurm controller')\n return {}\nJobs.load = load"
    )
    library = Library(None)
    await library.restart()
    with pytest.raises(SchedulerUnavailable, match="Unable to contact"):
        await library.query_jobs(PATIENCE_S)
    Path(os.environ["PYTHONPATH"].partition(os.pathsep)[0], "pyslurm.pyup").touch()
    assert await library.query_jobs(PATIENCE_S) == []
    await library.close()


async def test_a_library_that_hangs_or_dies_is_started_anew(install: Install) -> None:
    install("Jobs.load = lambda: time.sleep(600)")
    library = Library(None)
    await library.restart()
    with pytest.raises(SchedulerUnavailable, match=r"within 0\.2 s"):
        await library.query_jobs(0.2)
    install("def load():\n sys.exit('fatal: cannot read slurm.conf')\nJobs.load = load")
    for _ in range(2):
        with pytest.raises(SchedulerUnavailable, match="fatal: cannot read"):
            await library.query_jobs(PATIENCE_S)
    install("")
    assert len(await library.query_jobs(PATIENCE_S)) == 1
    await library.close()


async def test_no_pyslurm_is_said_with_what_to_do(install: Install) -> None:
    install("raise ImportError('libslurm.so.45: cannot open shared object file')")
    with pytest.raises(SetupError) as caught:
        await Library(None).restart()
    assert "libslurm.so.45" in caught.value.message
    assert "built with the headers of Slurm 26.05" in caught.value.message


@pytest.mark.parametrize(
    ("hello", "words"),
    [
        (WorkerHello(pyslurm="26.5.0", interface=45, missing=("Jobs.load",)), "lacks Jobs.load"),
        (
            WorkerHello(pyslurm="25.11.2", interface=44, missing=()),
            r"libslurm\.so\.44 here, and supports only Slurm 26\.05",
        ),
    ],
)
def test_incompatible_pyslurm_is_refused(hello: WorkerHello, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        check_pyslurm(hello)


async def test_command_prefix_is_refused_by_pyslurm(tmp_path: Path) -> None:
    slurm = SlurmSettings(command_prefix=["chroot", "/srv/slurm"])
    settings = load_settings(tmp_path, slurm=slurm)
    with pytest.raises(SetupError, match="command_prefix"):
        await PyslurmScheduler(settings, Tools(LocalCommand(), OwnFiles())).start()
