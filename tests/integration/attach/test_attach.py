"""Programs beside a running job, on every scheduler that can have them: where they are, how they end."""

from __future__ import annotations

import asyncio

import pytest

from aitne.core.errors import AitneError, SchedulerRejected
from aitne.core.sessions.attach_protocol import Size
from aitne.services.sessions.terminal import WINDOW_BYTES
from tests.support import realtime
from tests.support.attaching import attacher_of, listen, running, shell, submit, wait_gone
from tests.support.schedulers import Bench

pytestmark = realtime.PROCESSES

WAIT = "echo up; exec sleep 250"


async def test_a_command_runs_where_the_job_does_with_its_variables(bench: Bench) -> None:
    number, request = await submit(bench, WAIT, resources={"gpu": {"count": 1}})
    target = await running(bench, number, request)
    script = (
        'echo "$SLURM_JOB_ID|$AITNE_JOB_ID|$OF_THE_JOB|$PWD|$CUDA_VISIBLE_DEVICES"; id -un; cat'
    )
    terminal = await shell(attacher_of(bench), target, "sh", "-c", f"{script}; echo no >&2; exit 7")
    try:
        terminal.send_input(b"typed\0\xff\n")
        terminal.end_input()
        heard = await listen(terminal)
    finally:
        await terminal.close()
    line, user, typed = heard.out.split(b"\n", 2)
    job, ours, variable, folder, gpus = line.decode().split("|")
    assert (job, ours) == (number, str(request.job_id))
    assert (variable, folder) == ("yes, it is", request.job_dir)
    assert gpus.isdigit()
    assert user.decode() == (bench.stand.account or "root")
    assert (typed, heard.errors) == (b"typed\0\xff\n", b"no\n")
    assert heard.over is not None
    assert heard.over.code == 7


async def test_a_shell_has_a_terminal_that_changes_its_size(bench: Bench) -> None:
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    terminal = await shell(attacher_of(bench), target, tty=True, rows=33, cols=111, term="vt100")
    try:
        terminal.send_input(b'stty size; echo "$TERM"; echo on"e"\n')
        said = await listen(terminal, b"one\r\n")
        assert b"33 111\r\nvt100\r\n" in said.out
        terminal.resize(Size(rows=44, cols=122))
        terminal.send_input(b"stty size; exit 5\n")
        heard = await listen(terminal, after=said)
        assert b"44 122\r\n" in heard.out
        assert heard.over is not None
        assert heard.over.code == 5
    finally:
        await terminal.close()


async def test_terminal_output_waits_for_slow_reader(bench: Bench) -> None:
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    terminal = await shell(attacher_of(bench), target, "yes")
    try:
        messages = terminal.stream_output(0)
        got = 0

        async def read(at_least: int) -> None:
            nonlocal got
            while got < at_least:
                message = await anext(messages)
                got += len(message) if isinstance(message, bytes) else 0

        await asyncio.wait_for(read(WINDOW_BYTES), 30)
        # Nothing was acknowledged, so nothing more comes.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(1 << 30), 1)
        assert got < 2 * WINDOW_BYTES + (1 << 20)
        await messages.aclose()
    finally:
        await terminal.close()
    assert await wait_gone("yes")


async def test_lost_connection_ends_all_processes_of_terminal(bench: Bench) -> None:
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    mark = f"600.{number}"
    connection = await attacher_of(bench).attach(target)
    start = b'{"kind": "shell", "tty": true, "node": "%s"}' % target.node.encode()
    await asyncio.to_thread(connection.sendall, b"\0S" + len(start).to_bytes(4, "big") + start)
    typed = (
        f"trap '' HUP TERM; (setsid nohup sleep {mark} >/dev/null 2>&1 &); echo be''gun\n".encode()
    )
    await asyncio.to_thread(connection.sendall, b"\0D" + len(typed).to_bytes(4, "big") + typed)
    said = b""
    connection.settimeout(30)
    while b"begun" not in said:
        said += await asyncio.to_thread(connection.recv, 4_096)
    connection.close()
    assert await wait_gone("sleep", mark)
    (row,) = await bench.find(request.job_id)
    assert not row.state.is_terminal


async def test_terminal_ends_with_its_job(bench: Bench) -> None:
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    mark = f"601.{number}"
    terminal = await shell(attacher_of(bench), target, "sleep", mark)
    try:
        await bench.cancel(number)
        heard = await listen(terminal)
        assert heard.over is not None
        assert heard.over.code != 0
    finally:
        await terminal.close()
    assert await wait_gone("sleep", mark)


async def test_terminal_of_ended_job_is_rejected(bench: Bench) -> None:
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    await bench.cancel(number)
    await bench.wait_ended(number)
    with pytest.raises(SchedulerRejected):
        await attacher_of(bench).attach(target)


async def test_terminal_in_job_of_other_account_is_refused(bench: Bench) -> None:
    other = bench.stand.other_account
    if other is None:
        pytest.skip("the local scheduler has one account")
    number, request = await submit(bench, WAIT)
    target = await running(bench, number, request)
    assert other != request.account
    for wrong in (
        {"run": target.run.model_copy(update={"account": other})},
        {
            "run": target.run.model_copy(update={"account": other}),
            "place": target.place.model_copy(update={"account": other}),
        },
    ):
        with pytest.raises(AitneError):
            await attacher_of(bench).attach(target.model_copy(update=wrong))
