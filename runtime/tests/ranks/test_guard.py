"""A rank that delays others is named in the log, with the stacks of all ranks."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from aitne_train import context, lifecycle
from aitne_train.collective_request import Kind, Request
from aitne_train.profile_report import load_profile
from aitne_train.stall_monitor import RankMonitor
from tests.support import realtime
from tests.support.interrupts import each_interrupt, ends
from tests.support.ranks import Pool, Rank
from tests.support.waiting import eventually

pytestmark = realtime.RANKS

LAG = {"AITNE_GUARD_LAG_S": "1.0"}


def reduce(name: str) -> None:
    context.require_context().engine.run(Request(Kind.ALLREDUCE, name, (torch.ones(4),)))


def others_files(size: int) -> list[Path]:
    return [Path(os.environ["AITNE_RUN_DIR"], f"stacks-{rank}.txt") for rank in range(size)]


def dawdle_over_data() -> None:
    """Wait until every rank's stacks are in files."""
    eventually("all stacks are there", lambda: all(file.exists() for file in others_files(3)), 30)


def one_is_late(me: Rank) -> list[str]:
    lifecycle.init()
    reduce("first")
    if me.rank == 2:
        dawdle_over_data()
    reduce("second")
    lifecycle.shutdown()
    return [file.read_text() for file in others_files(3)]


def test_a_late_rank_is_named_with_the_stacks_of_all(pool: Pool) -> None:
    outcomes = pool.outcomes(one_is_late, 3, environ=LAG, nodes=(0, 0, 1))
    assert [each.error for each in outcomes] == [""] * 3
    log = outcomes[0].output
    assert "aitne: rank 2 (node 1) is late for allreduce 'second' since" in log
    # One line at the first look, and another with the stacks at the second.
    first, second = (place.start() for place in re.finditer("is late for", log))
    assert first < second < log.index("--- rank 2:")
    assert log[first:second].count("\n") == 1
    assert "in dawdle_over_data" in log
    assert 'reduce("second")' in log
    assert "--- rank 2:" in log
    assert "is late for" not in outcomes[1].output + outcomes[2].output
    for rank, text in enumerate(outcomes[0].value):
        assert text.startswith(f"rank {rank} at ")
    assert "in dawdle_over_data" in outcomes[0].value[2]


def computes_until_it_is_named(me: Rank) -> None:
    lifecycle.init()
    place = Path(os.environ["AITNE_RUN_DIR"], "log-of-rank-0")
    if me.rank == 0:
        log = Path(os.readlink("/proc/self/fd/2"))
        place.write_text(f"{log.stat().st_size} {log}")  # other tests have written to it before
    reduce("first")
    begin, _, name = place.read_text().partition(" ")

    def logged() -> str:
        return Path(name).read_bytes()[int(begin) :].decode()

    if me.rank == 1:
        while "is late for" not in logged():
            sum(range(100_000))
    reduce("second")
    if me.rank == 0:
        eventually("the end is logged", lambda: "all ranks continue" in logged(), 30)
    reduce("third")
    lifecycle.shutdown()


def test_rank_that_is_only_slow_is_named_in_one_line(pool: Pool) -> None:
    outcomes = pool.outcomes(computes_until_it_is_named, 2, environ={"AITNE_GUARD_LAG_S": "2.0"})
    assert [each.error for each in outcomes] == [""] * 2
    lines = [line for line in outcomes[0].output.splitlines() if line.startswith("aitne: ")]
    assert len(lines) == 2
    assert re.match(
        r"aitne: rank 1 \(node 0\) is late for allreduce 'second' since \d+ s;( rank 0 waits for it;)? "
        r"rank 1 is in .*computes_until_it_is_named.* \(test_guard\.py:\d+\)",
        lines[0],
    )
    assert lines[1] == "aitne: all ranks continue"


def channel_is_late(me: Rank) -> None:
    """Begin steps on a channel as an optimizer does, without a request to rank 0."""
    lifecycle.init()
    channel = context.require_context().open_channel("gradients", {})
    for step in range(3):
        if me.rank == 1 and step == 2:
            eventually(
                "stacks are there", lambda: all(file.exists() for file in others_files(2)), 30
            )
        channel.begin_step(step)
        _exchange(channel)
    lifecycle.shutdown()


def _exchange(channel: Any) -> None:
    from aitne_train.transport.base import Reduction

    channel.transport.allreduce(torch.ones(4), Reduction.SUM)


def test_a_rank_late_for_an_exchange_of_its_optimizer_is_named(pool: Pool) -> None:
    outcomes = pool.outcomes(channel_is_late, 2, environ=LAG)
    assert [each.error for each in outcomes] == [""] * 2
    assert "aitne: rank 1 (node 0) is late for an exchange since" in outcomes[0].output
    assert "in _exchange" in outcomes[0].output


def is_stopped(me: Rank, which: int) -> None:
    lifecycle.init()
    reduce("first")
    pids = Path(os.environ["AITNE_RUN_DIR"])
    (pids / f"pid-{me.rank}").write_text(str(os.getpid()))
    if me.rank == which:
        # The others see to it that it goes on, once it has been named.
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        threading.Thread(target=_let_go_on, args=(pids, which), daemon=True).start()
    reduce("second")
    lifecycle.shutdown()


def _let_go_on(folder: Path, which: int) -> None:
    """Continue the stopped rank once the log reports it; ranks log to the file of their stderr."""
    mine = os.readlink("/proc/self/fd/2")
    helper = 1 if which == 0 else 0
    if int(os.environ["RANK"]) == helper:
        eventually("the stop is logged", lambda: "is stopped" in Path(mine).read_text(), 30)
        os.kill(int((folder / f"pid-{which}").read_text()), signal.SIGCONT)


@pytest.mark.parametrize("which", [0, 1])
def test_a_stopped_rank_is_named_and_said_to_be_stopped(pool: Pool, which: int) -> None:
    outcomes = pool.outcomes(is_stopped, 2, which, environ=LAG)
    assert [each.error for each in outcomes] == [""] * 2
    log = outcomes[1 - which].output
    assert f"rank {which} (node 0) is late for" in log
    assert f"--- rank {which}:\naitne: process " in log
    assert "is stopped (SIGSTOP" in log


def opened_by_the_report(size: int) -> queue.SimpleQueue[None]:
    """Return a queue that gets an item once the stacks of all ranks are in files."""
    gate: queue.SimpleQueue[None] = queue.SimpleQueue()

    def release() -> None:
        # Rarely, because a process that computes is not idle.
        while not all(file.exists() for file in others_files(size)):
            time.sleep(0.1)
        gate.put(None)

    threading.Thread(target=release, daemon=True).start()
    return gate


def load_batch(gate: Any) -> None:
    gate.get()


def waits_for_its_input(me: Rank) -> None:
    lifecycle.init()
    dist.init_process_group("gloo")
    if me.rank == 1:
        load_batch(opened_by_the_report(2))
    dist.barrier()
    dist.destroy_process_group()
    lifecycle.shutdown()


def test_rank_late_for_torch_distributed_is_named_with_its_wait(pool: Pool) -> None:
    outcomes = pool.outcomes(waits_for_its_input, 2, environ=LAG)
    assert [each.error for each in outcomes] == [""] * 2
    log = outcomes[0].output
    assert re.search(
        r"aitne: rank 1 \(node 0\) is late for an exchange since \d+ s; rank 0 waits for it; "
        r"rank 1 waits in load_batch \(test_guard\.py:\d+\) since \d+ s\n",
        log,
    )
    assert "in barrier" in log


def all_wait_outside_of_collectives(me: Rank) -> None:
    lifecycle.init()
    reduce("first")
    gate = opened_by_the_report(2)
    if me.rank == 0:
        load_batch(gate)
    else:
        event = threading.Event()
        threading.Thread(target=lambda: (load_batch(gate), event.set()), daemon=True).start()
        event.wait()
    reduce("second")
    lifecycle.shutdown()


def test_ranks_that_all_wait_outside_of_collectives_are_reported(pool: Pool) -> None:
    outcomes = pool.outcomes(all_wait_outside_of_collectives, 2, environ=LAG)
    assert [each.error for each in outcomes] == [""] * 2
    log = outcomes[0].output
    assert "aitne: no rank makes progress since" in log
    assert "; rank 1 waits in Event.wait, called by all_wait_outside_of_collectives (" in log
    assert "rank 0 waits in load_batch (" in log
    first = log.index("no rank makes progress")
    assert first < log.index("no rank makes progress", first + 1) < log.index("--- rank")


def exchanges_in_another_thread(me: Rank) -> None:
    lifecycle.init()
    channel = context.require_context().open_channel("gradients", {})
    gate = opened_by_the_report(2)
    thread = threading.Thread(target=_exchange, args=(channel,), name="aitne-exchange")
    if me.rank == 0:
        thread.start()
        thread.join()
    else:
        load_batch(gate)
        _exchange(channel)
    lifecycle.shutdown()


def test_wait_for_an_exchange_of_another_thread_is_seen(pool: Pool) -> None:
    outcomes = pool.outcomes(exchanges_in_another_thread, 2, environ=LAG)
    assert [each.error for each in outcomes] == [""] * 2
    log = outcomes[0].output
    assert "rank 1 (node 0) is late for an exchange since" in log
    assert "rank 0 waits for it; rank 1 waits in load_batch (" in log


LONG_COMPUTATION = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 6_000_000)"


def computes_for_long(me: Rank) -> None:
    lifecycle.init()
    reduce("first")
    if me.rank == 0:
        exec(LONG_COMPUTATION)
    else:
        subprocess.run([sys.executable, "-c", LONG_COMPUTATION], check=True)
    lifecycle.shutdown()


def test_long_computation_is_no_stall(pool: Pool) -> None:
    """In the process itself, in one call that does not hold the interpreter, or in a child."""
    outcomes = pool.outcomes(computes_for_long, 2, environ={"AITNE_GUARD_LAG_S": "0.5"})
    assert [each.error for each in outcomes] == [""] * 2
    assert "aitne:" not in outcomes[0].output + outcomes[1].output


def trains(me: Rank) -> None:
    lifecycle.init()
    here = context.require_context()
    for _ in range(20):
        reduce("gradient")
        here.recorder.step()
    lifecycle.shutdown()


def test_the_profile_of_a_run_lies_in_its_folder(pool: Pool, tmp_path: Path) -> None:
    pool.run(trains, 2, environ={"AITNE_PROFILE": str(tmp_path)})
    found = load_profile(tmp_path / "profile.json")
    assert (found["size"], found["steps"], found["final"]) == (2, 19, True)
    (row,) = [row for row in found["table"] if row["op"] == "allreduce"]
    assert (row["count"], row["bytes"]) == (20, 320)
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert (tmp_path / "profile.trace.json").exists()


def test_profile_is_not_written_when_recording_is_off(pool: Pool, tmp_path: Path) -> None:
    pool.run(trains, 2, environ={"AITNE_PROFILE": str(tmp_path), "AITNE_RECORD": "0"})
    assert list(tmp_path.iterdir()) == []


def wrong_lag(me: Rank) -> str:
    with pytest.raises(ValueError, match="AITNE_GUARD_LAG_S is 'soon'") as caught:
        lifecycle.init()
    sys.stderr.write(str(caught.value))
    assert not context.is_initialized()
    return str(caught.value)


def test_a_lag_that_is_no_number_is_refused(pool: Pool) -> None:
    pool.run(wrong_lag, 2, environ={"AITNE_GUARD_LAG_S": "soon"})


def interrupt_the_monitor(me: Rank) -> None:
    """Interrupt what the main thread does in the monitor: take messages, and close it."""
    lifecycle.init()
    here = context.require_context()
    take = partial(here.control.send, 0, "guard.here", [1, "stacks of rank 1"])
    if me.rank == 0:
        for closes in (False, True):
            for interrupt in each_interrupt():
                monitor = RankMonitor(here, 30)
                monitor.start()
                interrupt(monitor.close if closes else take)
                ends(take, monitor.close)
    reduce("last")
    lifecycle.shutdown()


def test_a_monitor_keeps_no_lock_after_an_interrupt(pool: Pool) -> None:
    outcomes = pool.outcomes(interrupt_the_monitor, 2, environ={"AITNE_GUARD_LAG_S": "0"})
    assert [each.error for each in outcomes] == ["", ""]
