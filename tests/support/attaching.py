"""Jobs of a real scheduler with the agent beside them, and terminals in them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aitne.adapters.broker_attacher import BrokerAttacher
from aitne.adapters.broker_scheduler import BrokerScheduler
from aitne.adapters.node_software_folder import agent_archive
from aitne.adapters.schedulers._local.local_attacher import LocalAttacher
from aitne.adapters.schedulers._slurm.slurm_attacher import SlurmAttacher
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.jobs.batch_script import render_script
from aitne.core.jobs.job_folder_layout import AGENT_SPEC, TOKEN
from aitne.core.ports.attacher import Attacher, AttachTarget
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.runtime import RuntimeLaunch
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.sessions.attach_protocol import ShellStart
from aitne.local_system.settings_loader import load_settings
from aitne.services.sessions.terminal import STDERR, STDOUT, Terminal, TerminalExit, open_terminal
from tests.support.schedulers import Bench, slurm_tools

PATIENCE_S = 40.0


def agent_of(bench: Bench) -> tuple[str, ...]:
    """Return the command that starts the agent on a node; Slurm's nodes have no installed platform."""
    if bench.stand.account is None:
        return (sys.executable, "-I", "-m", "aitne.agent")
    path = bench.stand.jobs / "agent-test.pyz"
    if not path.exists():
        path.write_bytes(agent_archive())
        path.chmod(0o644)
    return ("/usr/bin/python3", "-I", str(path))


def attacher_of(bench: Bench) -> Attacher:
    """Return the attacher that the platform's API uses for this scheduler."""
    if isinstance(bench.scheduler, BrokerScheduler):
        return BrokerAttacher(bench.scheduler.settings)
    settings = load_settings(bench.data_dir)
    cluster = bench.stand.slurm
    if cluster is None:
        return LocalAttacher(settings)
    slurm = SlurmSettings(
        conf=cluster.slurm_conf,
        operator=cluster.operator,
        command_prefix=list(cluster.command_prefix),
    )
    settings = load_settings(bench.data_dir, slurm=slurm)
    return SlurmAttacher(settings, slurm_tools(cluster, settings))


def with_agent(request: SubmitRequest, spec: AgentSpec, agent: tuple[str, ...]) -> SubmitRequest:
    """Return the request with the script and the files of a job whose agent runs ``spec``."""
    script = render_script(
        job_id=request.job_id,
        attempt=request.attempt,
        session=False,
        project=request.project,
        resources=request.resources,
        time_limit_s=request.time_limit_s,
        array=request.array,
        job_dir=request.job_dir,
        agent=agent,
    )
    files = {AGENT_SPEC: spec.model_dump_json().encode(), TOKEN: b"secret"}
    return request.model_copy(update={"script": script, "files": files})


async def submit(
    bench: Bench, *commands: str, launch: RuntimeLaunch | None = None, **changes: Any
) -> tuple[str, SubmitRequest]:
    """Submit a job with an agent, as the platform does; return its id and the request."""
    request = bench.request("", **({"time_limit_s": 300} | changes))
    spec = AgentSpec(
        job_id=request.job_id,
        attempt=request.attempt,
        platform_url=None,
        commands=tuple(("/bin/sh", "-c", command) for command in commands),
        env={"OF_THE_JOB": "yes, it is"},
        workdir=request.job_dir,
        launch=launch or RuntimeLaunch(),
        tmp_dir="/tmp",
    )
    request = with_agent(request, spec, agent_of(bench))
    scheduler_id = await bench.scheduler.submit(request)
    bench.remember(scheduler_id, request)
    return scheduler_id, request


async def running(bench: Bench, scheduler_id: str, request: SubmitRequest) -> AttachTarget:
    """Return the target to attach to, after the job's program has written `up`."""
    async with asyncio.timeout(PATIENCE_S):
        row = await bench.running(scheduler_id)
        while "up" not in bench.log(request):
            (row,) = await bench.rows(scheduler_id)
            assert not row.state.is_terminal, bench.log(request)
            await asyncio.sleep(0.1)
    return AttachTarget(
        run=bench.run(scheduler_id),
        place=JobLocation(
            job_id=request.job_id,
            attempt=request.attempt,
            folder=os.path.dirname(request.job_dir),
            account=request.account,
        ),
        node=row.nodes[0],
        agent=agent_of(bench),
    )


async def shell(
    attacher: Attacher, target: AttachTarget, *argv: str, tty: bool = False, **more: Any
) -> Terminal:
    """Open a terminal in the job that runs a program, or the user's shell by default."""
    connection = await attacher.attach(target)
    return await open_terminal(
        connection,
        ShellStart(argv=argv, tty=tty, **more),
        node=target.node,
        owner="ada",
        job_id=target.run.job_id,
    )


class TerminalOutput:
    """The output of one terminal, and its exit when it has ended."""

    def __init__(self) -> None:
        self.out = b""
        self.errors = b""
        self.over: TerminalExit | None = None
        self.received = 0
        """The number of received bytes, as acknowledged."""


async def listen(
    terminal: Terminal, until: bytes | None = None, *, after: TerminalOutput | None = None
) -> TerminalOutput:
    """Read, and acknowledge, until those bytes have come, or to the end."""
    heard = TerminalOutput()
    heard.received = 0 if after is None else after.received
    async with asyncio.timeout(PATIENCE_S):
        async for message in terminal.stream_output(heard.received):
            if isinstance(message, TerminalExit):
                heard.over = message
                break
            if isinstance(message, bytes):
                heard.received += len(message)
                heard.out += message[1:] if message[:1] == STDOUT else b""
                heard.errors += message[1:] if message[:1] == STDERR else b""
                terminal.acknowledge(heard.received)
                if until is not None and until in heard.out:
                    break
    return heard


def processes(mark: Sequence[bytes]) -> list[int]:
    """Return the processes of this machine with exactly this command line."""
    wanted = b"\0".join(mark) + b"\0"
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def wait_gone(*mark: str) -> bool:
    """Wait until no process has this command line; return True."""
    words = [word.encode() for word in mark]
    async with asyncio.timeout(PATIENCE_S):
        while processes(words):
            await asyncio.sleep(0.05)
    return True
