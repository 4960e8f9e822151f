"""Functions that ranks run in the tests of the engine; each begins and ends without a context."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from aitne_train import context, lifecycle
from aitne_train.collective_request import Kind, ReduceOp, Request
from aitne_train.context import Context
from aitne_train.errors import HorovodInternalError
from aitne_train.process_sets import ProcessSet, add_process_set, remove_process_set
from aitne_train.transport.base import Reduction, TransportError
from tests.support.rank import Rank


@contextlib.contextmanager
def begun(process_sets: Any = None) -> Iterator[Context]:
    lifecycle.init(process_sets)
    try:
        yield context.require_context()
    finally:
        lifecycle.shutdown()


def failure(call: Callable[[], Any]) -> str:
    try:
        call()
    except (HorovodInternalError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def summed(name: str | None, tensor: torch.Tensor, **fields: Any) -> Request:
    return Request(Kind.ALLREDUCE, name, [tensor], **fields)


def collectives(me: Rank) -> dict[str, Any]:
    """Run each kind of collective once; return the results."""
    n, r = me.size, me.rank
    with begun() as current:
        run = current.engine.run
        found: dict[str, Any] = {
            "world": (current.world.rank, current.world.size, current.nodes),
            "average": run(summed(None, torch.arange(3.0) + r, op=ReduceOp.AVERAGE))[0].tolist(),
            "max": run(summed(None, torch.tensor([r, -r]), op=ReduceOp.MAX))[0].tolist(),
            "scaled": run(summed(None, torch.tensor([r + 1]), prescale=2.0, postscale=0.5))[
                0
            ].tolist(),
            "bfloat16": run(summed(None, torch.full((2,), r + 1.0).bfloat16()))[0].tolist(),
        }
        group = [torch.full((2,), float(r)), torch.tensor(r), torch.empty(0)]
        grouped = run(Request(Kind.ALLREDUCE, None, group))
        found["group"] = [each.tolist() for each in grouped]
        gathered = run(Request(Kind.ALLGATHER, None, [torch.full((r, 2), r), torch.tensor(r)]))
        found["gathered"] = [each.tolist() for each in gathered]
        tensor = torch.full((3,), r)
        (output,) = run(Request(Kind.BROADCAST, None, [tensor], [tensor], root=n - 1))
        found["broadcast"] = (output is tensor, tensor.tolist())
        splits = [to + 1 for to in range(n)]
        exchanged = run(
            Request(Kind.ALLTOALL, None, [torch.full((sum(splits),), r)], splits=splits)
        )
        found["alltoall"] = [each.tolist() for each in exchanged]
        rows = torch.ones(n + 1, 2)
        found["scattered"] = run(Request(Kind.REDUCESCATTER, None, [rows]))[0].shape[0]
        run(Request(Kind.BARRIER, None, ()))
        return found


def any_order(me: Rank) -> list[float]:
    """Submit and await requests in orders that differ between ranks."""
    with begun() as current:
        engine = current.engine
        order = list(range(40))
        order = order[me.rank * 7 :] + order[: me.rank * 7]
        handles = {
            at: engine.submit(summed(f"t{at}", torch.full((at + 1,), float(at)))) for at in order
        }
        return [engine.wait(handles[at])[0].sum().item() for at in reversed(range(40))]


def nobody_waits(me: Rank) -> bool:
    """Return whether a request completes without a wait."""
    with begun() as current:
        handle = current.engine.submit(summed("t", torch.ones(3)))
        until = time.monotonic() + 20
        while not current.engine.poll(handle):
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return bool(current.engine.wait(handle)[0].tolist() == [float(me.size)] * 3)


def many_threads(me: Rank) -> list[float]:
    """Exchange in four threads of each rank at the same time."""
    found = [0.0] * 4
    with begun() as current:

        def exchange(at: int) -> None:
            for step in range(25):
                (result,) = current.engine.run(
                    summed(f"{at}.{step}", torch.tensor([float(at + step)]))
                )
                found[at] += result.item()

        threads = [threading.Thread(target=exchange, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def again_and_again(me: Rank) -> list[float]:
    found = []
    for turn in range(3):
        with begun() as current:
            lifecycle.init()  # does nothing
            found.append(current.engine.run(summed(None, torch.tensor([float(turn)])))[0].item())
    return found


def uneven(me: Rank) -> dict[str, Any]:
    """Run as many steps as the rank's number; a second round is even."""
    with begun() as current:
        run = current.engine.run
        sums = [run(summed(None, torch.tensor([1.0])))[0].item() for _ in range(me.rank)]
        last = current.engine.join(Request(Kind.JOIN, None, ()))
        after = run(summed(None, torch.tensor([1.0])))[0].item()
        return {"sums": sums, "last": last, "after": after}


def channel_and_join(me: Rank) -> Any:
    """Exchange a step more than the rank's number on a channel; joined ranks add zeros."""
    with begun() as current:
        channel = current.open_channel("optimizer", {"sizes": [3]})
        sums = []

        def step(number: int, value: float) -> float:
            flat = torch.full((3,), value)
            channel.transport.allreduce(flat, 1)  # type: ignore[arg-type]
            return float(flat[0])

        channel.on_joined(lambda number: sums.append(step(number, 0.0)))
        for number in range(me.rank + 1):
            channel.begin_step(number)
            sums.append(step(number, 1.0))
        last = current.engine.join(Request(Kind.JOIN, None, ()))
        return sums, last


def join_settles(me: Rank) -> bool:
    """Return whether rank 0 has finished a step that it took part in when `join` returns."""
    with begun() as current:
        channel = current.open_channel("optimizer", {})
        through = threading.Event()

        def take_part(_step: int) -> None:
            channel.transport.barrier()
            time.sleep(0.5)  # as one who copies much
            through.set()

        channel.on_joined(take_part)
        if me.rank == 1:
            channel.begin_step(1)
            channel.transport.barrier()
            through.set()
        current.engine.join(Request(Kind.JOIN, None, ()))
        return through.is_set()


def channel_signatures(me: Rank) -> str:
    with begun() as current:
        return failure(lambda: current.open_channel("x", {"sizes": [3 + me.rank]}))


def sets(me: Rank) -> dict[str, Any]:
    """Use static process sets, with one name in two sets at once."""
    low, odd = ProcessSet([0, 1]), ProcessSet([1, 2])
    with begun([low, odd]) as current:
        mine = [each for each in (low, odd) if each.included()]
        handles = {}
        for each in mine:
            number = each.process_set_id or 0
            handles[number] = current.engine.submit(
                summed("t", torch.tensor([me.rank + 1.0]), set_id=number)
            )
        results = {
            number: current.engine.wait(handle)[0].item() for number, handle in handles.items()
        }
        outside = failure(
            lambda: current.engine.submit(
                summed("t", torch.ones(1), set_id=1 if me.rank == 2 else 2)
            )
        )
        ranks = [each.rank() for each in mine]
        gathered = [
            current.engine.run(
                Request(
                    Kind.ALLGATHER, None, [torch.tensor([me.rank])], set_id=each.process_set_id or 0
                )
            )[0].tolist()
            for each in mine
        ]
        return {
            "results": results,
            "outside": outside,
            "ranks": ranks,
            "sizes": [low.size(), odd.size()],
            "gathered": gathered,
        }


def dynamic_sets(me: Rank) -> dict[str, Any]:
    with begun("dynamic") as current:
        made = add_process_set([1, 0])
        twice = failure(lambda: add_process_set([0, 1]))
        strange = failure(lambda: add_process_set([0, 9]))
        differ = failure(lambda: add_process_set([0] if me.rank else [1]))
        if made.included():
            current.engine.run(summed(None, torch.ones(1), set_id=made.process_set_id or 0))
        number = made.process_set_id
        removed = remove_process_set(made)
        again = add_process_set([0, 1]).process_set_id
        found = {
            "twice": twice,
            "strange": strange,
            "differ": differ,
            "number": number,
            "removed": removed,
            "after": made.process_set_id,
            "again": again,
        }
    os.environ.pop("HOROVOD_DYNAMIC_PROCESS_SETS")
    with begun():
        found["static"] = failure(lambda: add_process_set([0]))
    return found


def disagree(me: Rank) -> list[str]:
    """Make requests that fail and leave the engine intact: the last one succeeds."""
    r = me.rank
    with begun() as current:
        run = current.engine.run
        found = [
            failure(lambda: run(summed("shape", torch.ones(r + 1)))),
            failure(
                lambda: run(summed("dtype", torch.ones(2).to(torch.int32 if r else torch.int64)))
            ),
            failure(lambda: run(Request(Kind.BROADCAST, "root", [torch.ones(2)], root=r))),
            failure(lambda: run(summed("type", torch.ones(2).to(torch.uint64)))),
        ]
        for repeater in range(me.size):
            if r != repeater:  # until this rank takes part, the first one is in progress
                run(summed("go", torch.ones(1)))
            first = current.engine.submit(summed("twice", torch.ones(1)))
            if r == repeater:
                found.append(failure(lambda: current.engine.submit(summed("twice", torch.ones(1)))))
                run(summed("go", torch.ones(1)))
            current.engine.wait(first)
        found.append(failure(lambda: current.engine.wait(first)))
        found.append(str(run(summed("fine", torch.ones(1)))[0].item()))
        return found


def different_collectives(me: Rank) -> str:
    with begun() as current:
        kind = Kind.ALLGATHER if me.rank else Kind.ALLREDUCE
        return failure(
            lambda: current.engine.run(Request(kind, "a" if me.rank else "b", [torch.ones(1)]))
        )


def stalled(me: Rank) -> str:
    """Let rank 1 request another collective without waiting, so that rank 0 stalls."""
    with begun() as current:
        engine = current.engine
        if me.rank == 0:
            return failure(lambda: engine.run(summed("a", torch.ones(1))))
        until = time.monotonic() + 30
        said = ""
        while not said.startswith("HorovodInternalError") and time.monotonic() < until:
            time.sleep(0.05)
            said = failure(lambda: engine.submit(summed("z", torch.ones(1))))
        return said


def killed(me: Rank, victim: int, busy: bool) -> tuple[str, str]:
    """Kill one rank with SIGKILL."""
    lifecycle.init()
    engine = context.require_context().engine
    engine.run(summed(None, torch.ones(4)))
    if me.rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    if busy:
        tensors = [torch.ones(1 << 20) for _ in range(4)]
        errors = failure(lambda: [engine.run(summed(None, each)) for each in tensors * 100])
    else:
        errors = failure(lambda: engine.run(summed(None, torch.ones(1))))
    later = failure(lambda: engine.submit(summed("later", torch.ones(1))))
    lifecycle.shutdown()
    return errors, later


def leaves_early(me: Rank) -> str:
    """Shut rank 1 down while the other ranks still make requests."""
    lifecycle.init()
    engine = context.require_context().engine
    engine.run(summed(None, torch.ones(4)))
    if me.rank == 1:
        lifecycle.shutdown()
        return "left"
    error = failure(lambda: engine.run(summed("more", torch.ones(1))))
    lifecycle.shutdown()
    return error


def hears_no_more(me: Rank) -> str:
    """Let rank 1 fail on a message; it makes no request and stays until rank 0 has noticed."""
    lifecycle.init()
    current = context.require_context()
    control, over = current.control, threading.Event()
    if me.rank == 1:
        control.register_handler("strange", lambda _sender, payload: payload["what is not there"])
        control.register_lost_handler(lambda _rank, _why: over.set())
        current.store.set("hears", b"")
        over.wait(30)
    else:
        current.store.get("hears", 30.0)
        control.send(1, "strange", {})
    error = failure(lambda: current.engine.run(summed("more", torch.ones(1))))
    current.store.set(f"heard{me.rank}", b"")
    current.store.get(f"heard{1 - me.rank}", 30.0)
    lifecycle.shutdown()
    return error


def ends(me: Rank) -> str:
    """End the program of rank 1 by an exception while the others wait."""
    lifecycle.init()
    engine = context.require_context().engine
    engine.run(summed(None, torch.ones(4)))
    if me.rank == 1:
        import atexit

        atexit._run_exitfuncs()  # what the interpreter does after the traceback
        os._exit(1)
    error = failure(lambda: engine.run(summed("more", torch.ones(1))))
    lifecycle.shutdown()
    return error


def forks(me: Rank) -> str:
    """Let a forked worker outlive its rank until the other one has noticed the rank's death."""
    lifecycle.init()
    engine = context.require_context().engine
    engine.run(summed(None, torch.ones(4)))
    if me.rank == 1:
        child = os.fork()
        if child == 0:
            known = failure(context.require_context)
            time.sleep(120)
            os._exit(0 if known.startswith("ValueError") else 1)
        me.store.set(f"{me.call}-worker", str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    error = failure(lambda: engine.run(summed("more", torch.ones(1))))
    os.kill(int(me.store.get(f"{me.call}-worker", 30)), signal.SIGKILL)
    lifecycle.shutdown()
    return error


def leaves_an_exchange(me: Rank) -> str:
    """Let rank 1 leave while the others wait for it in a channel's exchange."""
    lifecycle.init()
    current = context.require_context()
    channel = current.open_channel("optimizer", {})
    flat = torch.ones(4)
    channel.transport.allreduce(flat, Reduction.SUM)
    if me.rank == 1:
        lifecycle.shutdown()
        return "left"
    try:
        channel.transport.allreduce(flat, Reduction.SUM)
        error = "nothing was raised"
    except TransportError as raised:
        error = str(channel.make_failure(raised))
    lifecycle.shutdown()
    return error


def missing(me: Rank) -> str:
    """Let rank 1 of 2 be absent."""
    if me.rank == 1:
        return "away"
    return failure(lifecycle.init)


def sets_of_communicators(me: Rank) -> dict[str, Any]:
    """Sum over a process set from an MPI communicator, with every second rank."""
    from mpi4py import MPI

    half = ProcessSet(MPI.COMM_WORLD.Split(me.rank % 2))
    with begun([half]) as current:
        (total,) = current.engine.run(
            summed(None, torch.tensor([me.rank]), set_id=half.process_set_id or 0)
        )
        # The first rank that leaves ends it for all.
        current.engine.run(Request(Kind.BARRIER, None, ()))
        return {"ranks": half.ranks, "sum": total.item(), "sets": dict(current.sets)}


def same_set_twice(me: Rank) -> str:
    said = failure(lambda: lifecycle.init([ProcessSet([0, 1]), ProcessSet([1, 0])]))
    return f"{said}; initialized: {context.is_initialized()}"
