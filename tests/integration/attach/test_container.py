"""Terminals in the container of a running program, with the rights that its programs have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from aitne.adapters.runtimes.apptainer import ApptainerRuntime
from aitne.core.models.image import ImageUse
from aitne.core.ports.runtime import Bind, ContainerSpec, RuntimeLaunch
from aitne.core.settings import Settings
from tests.support import realtime
from tests.support.attaching import attacher_of, listen, running, shell, submit, wait_gone
from tests.support.images import USR, build_sif, need_apptainer
from tests.support.schedulers import Bench

pytestmark = realtime.PROCESSES


@pytest.fixture(scope="module")
def sif() -> Iterator[Path]:
    """A SIF in a folder that all accounts can read; pytest's own folders are readable by root only."""
    need_apptainer()
    with TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield build_sif(folder)


def launch(bench: Bench, sif: Path) -> RuntimeLaunch:
    if bench.stand.slurm is not None and bench.stand.slurm.command_prefix:
        pytest.skip("its nodes have a root file system of their own, without Apptainer")
    jobs = str(bench.stand.jobs)
    spec = ContainerSpec(
        image=ImageUse(reference="box:1.0", path=str(sif)),
        argv=("true",),
        binds=(USR, Bind(source=jobs, target=jobs, writable=True)),
        home=jobs,
        workdir=jobs,
    )
    return ApptainerRuntime(Settings(data_dir=bench.data_dir)).make_launch(spec)


async def test_terminal_runs_in_container_of_program(bench: Bench, sif: Path) -> None:
    program = "echo made-here > /tmp/of-the-program; echo up; exec sleep 271"
    number, request = await submit(bench, program, launch=launch(bench, sif))
    target = await running(bench, number, request)
    script = (
        'cat /tmp/of-the-program; echo "$OF_THE_JOB"; echo "$AITNE_JOB_ID"; '
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep 271'; "
        "grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status | tr -d '\\t '; "
        "ls -d /root /work 2>/dev/null; id -u"
    )
    terminal = await shell(attacher_of(bench), target, "/bin/sh", "-c", script)
    try:
        assert terminal.started.where == "container"
        heard = await listen(terminal)
    finally:
        await terminal.close()
    lines = heard.out.decode().split()
    assert lines[:1] == ["made-here"]
    assert lines[1:4] == ["yes,", "it", "is"]
    assert lines[4:6] == [str(request.job_id), "1"]
    nothing = "0" * 16
    assert lines[6:9] == [f"CapEff:{nothing}", f"CapBnd:{nothing}", "NoNewPrivs:1"]
    assert "/work" not in lines
    assert heard.over is not None
    assert (heard.over.code, heard.errors) == (0, b"")


async def test_a_shell_in_it_has_a_terminal_and_leaves_nothing(bench: Bench, sif: Path) -> None:
    number, request = await submit(bench, "echo up; exec sleep 272", launch=launch(bench, sif))
    target = await running(bench, number, request)
    mark = f"602.{number}"
    terminal = await shell(attacher_of(bench), target, tty=True, rows=35, cols=99)
    terminal.send_input(
        f"stty size; (setsid nohup sleep {mark} >/dev/null 2>&1 &); echo do'ne'\n".encode()
    )
    heard = await listen(terminal, b"done\r\n")
    assert b"35 99\r\n" in heard.out
    await terminal.close()
    assert await wait_gone("sleep", mark)
    (row,) = await bench.find(request.job_id)
    assert not row.state.is_terminal
