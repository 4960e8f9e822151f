"""Tests of the shared-memory transport alone; `test_transports.py` tests all transports."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from runtime.tests.ranks import transport_work as work

from aitne_train.transport import _shm_kernel, _shm_layout
from aitne_train.transport.base import Reduction, TransportError
from aitne_train.transport.shm import ShmTransport
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS

PURE = {_shm_kernel.SWITCH: "off"}
BOTH = [
    pytest.param({_shm_kernel.SWITCH: None}, id="kernel"),
    pytest.param(PURE, id="pure"),
]
both = pytest.mark.parametrize("environ", BOTH)


# --- more ranks than processors ------------------------------------------------------------------


@both
def test_more_ranks_than_processors_get_what_they_should(
    pool: Pool, environ: dict[str, str | None]
) -> None:
    pool.run(work.a_little_of_all, 7, "shm", environ=environ)


def test_sixty_four_ranks_get_what_they_should() -> None:
    """Processes forked from one that has torch: 64 fresh ones would take minutes to import it."""
    script = Path(__file__).with_name("shm_many_ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), "64"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["64", "ranks"]


def test_sixty_five_ranks_or_two_nodes_or_a_gpu_are_refused() -> None:
    assert ShmTransport.refusal((0,) * 64, "cpu") is None
    assert "65 ranks" in str(ShmTransport.refusal((0,) * 65, "cpu"))
    assert "2 nodes" in str(ShmTransport.refusal((0, 1), "cpu"))
    assert "cuda" in str(ShmTransport.refusal((0, 0), "cuda"))


# --- the same bits by both ways ------------------------------------------------------------------


def every_half(me: Rank, dtype: torch.dtype) -> bytes:
    """Reduce all 16-bit floats, each with other ones."""
    transport = ShmTransport.connect(me.group(), "cpu")
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    flat = (bits if me.rank == 0 else bits.roll(77 * me.rank)).view(dtype).clone()
    rows = []
    for op in Reduction:
        row = flat.clone()
        transport.allreduce(row, op)
        # There is more than one NaN; the tests accept each of them.
        rows.append(torch.where(row.isnan(), torch.zeros_like(row) + 1234, row))
        rows.append(row.isnan().to(dtype))
    transport.close()
    return torch.cat(rows).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [2, 3])
def test_every_half_is_reduced_as_pytorch_would(pool: Pool, dtype: torch.dtype, size: int) -> None:
    """Denormal numbers, infinities and those that round to them included."""
    found = pool.run(every_half, size, dtype)
    expected = pool.run(every_half, size, dtype, environ=PURE)
    assert found == expected


def corners(me: Rank, dtype: torch.dtype) -> list[list[float]]:
    transport = ShmTransport.connect(me.group(), "cpu")
    if dtype.is_floating_point:
        inf, nan = float("inf"), float("nan")
        mine = [[inf, nan, 1.0, -inf, -0.0], [1.0, 2.0, nan, inf, 0.0]][me.rank]
    else:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        mine = [[low, high, high, low], [low, 1, high, 3]][me.rank]
    rows = []
    for op in Reduction:
        flat = torch.tensor(mine, dtype=dtype)
        transport.allreduce(flat, op)
        rows.append(flat.nan_to_num(nan=-4.0).tolist())
    transport.close()
    return rows


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int8, torch.int64])
def test_overflow_and_no_numbers_go_as_in_pytorch(
    pool: Pool, environ: dict[str, str | None], dtype: torch.dtype
) -> None:
    if dtype.is_floating_point:
        inf, nan = float("inf"), float("nan")
        a, b = [inf, nan, 1.0, -inf, -0.0], [1.0, 2.0, nan, inf, 0.0]
    else:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        a, b = [low, high, high, low], [low, 1, high, 3]
    one, other = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
    by_pytorch = [
        one + other,
        torch.minimum(one, other),
        torch.maximum(one, other),
        one * other,
    ]
    expected = [each.nan_to_num(nan=-4.0).tolist() for each in by_pytorch]
    assert pool.run(corners, 2, dtype, environ=environ) == [expected] * 2


# --- what may go wrong ---------------------------------------------------------------------------


@both
@pytest.mark.parametrize("victim", [0, 2])
def test_killed_rank_is_named_on_all_survivors(
    pool: Pool, environ: dict[str, str | None], victim: int
) -> None:
    args = (work.left_by_killed, 3, "shm", victim, 50_000)
    found = pool.run(*args, environ=environ, dying=[victim])
    for rank in {0, 1, 2} - {victim}:
        told, _, memory_left = found[rank]
        assert all(f"ank {victim} " in each for each in told), told
        assert not memory_left


def killed_with_children(me: Rank) -> str:
    """Kill a rank with a forked child, which has all open files of its parent."""
    transport = ShmTransport.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 1:
        child = os.fork()
        if child == 0:
            signal.pause()
        me.store.set(f"{me.call}-child", str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    child = int(me.store.get(f"{me.call}-child", 30))
    try:
        transport.barrier()
    except TransportError as error:
        return str(error)
    finally:
        os.kill(child, signal.SIGKILL)
        transport.close()
    raise AssertionError("a dead rank came to a barrier")


@both
def test_a_killed_rank_is_missed_although_its_loader_s_workers_live(
    pool: Pool, environ: dict[str, str | None]
) -> None:
    told = pool.run(killed_with_children, 2, environ=environ, dying=[1])[0]
    assert "Rank 1 " in told


def error_of_barrier(me: Rank, transport: ShmTransport) -> str:
    """Return the error of a barrier to which another rank cannot come, and say that it is known."""
    try:
        transport.barrier()
    except TransportError as error:
        me.store.set(f"{me.call}-told", b"1")
        return str(error)
    finally:
        transport.close()
    raise AssertionError("a rank that is gone came to a barrier")


def killed_while_rank_0_is_busy(me: Rank) -> str:
    transport = ShmTransport.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if me.rank == 0:
        me.store.get(f"{me.call}-told", 30)
    return error_of_barrier(me, transport)


@both
def test_waiting_rank_hears_of_killed_rank_while_rank_0_computes(
    pool: Pool, environ: dict[str, str | None]
) -> None:
    found = pool.run(killed_while_rank_0_is_busy, 3, environ=environ, dying=[1])
    assert "Rank 1 is gone" in found[0]
    assert "Rank 1 is gone" in found[2]


def closed_by_the_other(me: Rank) -> str:
    transport = ShmTransport.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 1:
        transport.close()
        transport.close()
        me.store.get(f"{me.call}-told", 30)
        return ""
    return error_of_barrier(me, transport)


@both
def test_waiting_rank_hears_of_rank_that_left(pool: Pool, environ: dict[str, str | None]) -> None:
    assert "ank 1 " in pool.run(closed_by_the_other, 2, environ=environ)[0]


def one_that_does_something_else(me: Rank) -> str:
    transport = ShmTransport.connect(me.group(), "cpu")
    try:
        if me.rank == 0:
            transport.allreduce(torch.ones(100_000), Reduction.SUM)
        else:
            transport.allreduce(torch.ones(100_001), Reduction.SUM)
    except TransportError as error:
        return str(error)
    finally:
        me.store.set(f"{me.call}-{me.rank}", b"1")
        me.store.get(f"{me.call}-{1 - me.rank}", 30)
        transport.close()
    raise AssertionError("100000 and 100001 values were added up")


@both
def test_ranks_that_disagree_are_told_so(pool: Pool, environ: dict[str, str | None]) -> None:
    for told in pool.run(one_that_does_something_else, 2, environ=environ):
        assert "different sizes" in told or "or sizes" in told


def interrupted(me: Rank) -> str:
    """Interrupt a waiting rank with Control-C: the handler runs, and the other rank gets an error."""
    transport = ShmTransport.connect(me.group(), "cpu")
    transport.barrier()
    try:
        if me.rank == 0:
            main = threading.main_thread().ident
            assert main is not None
            timer = threading.Timer(0.2, signal.pthread_kill, [main, signal.SIGINT])
            timer.start()
            transport.barrier()
        else:
            me.store.get(f"{me.call}-interrupted", 30)
            transport.barrier()
    except (KeyboardInterrupt, TransportError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        me.store.set(f"{me.call}-interrupted", b"1")
        transport.close()
    raise AssertionError("a barrier was passed by one rank alone")


@both
def test_an_interrupt_ends_a_wait_on_all_ranks(pool: Pool, environ: dict[str, str | None]) -> None:
    first, second = pool.run(interrupted, 2, environ=environ)
    assert first.startswith("KeyboardInterrupt")
    assert "Rank 0 " in second


def without_memory(me: Rank) -> str:
    if me.rank == 0:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        ShmTransport.connect(me.group(), "cpu")
    except TransportError as error:
        return str(error)
    finally:
        if me.rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    raise AssertionError("there was memory")


def test_every_rank_is_told_when_there_is_no_memory(pool: Pool) -> None:
    for told in pool.run(without_memory, 3):
        assert "MiB cannot be allocated" in told
        assert "AITNE_TRANSPORT" in told


def one_does_not_come(me: Rank, absent: int) -> str:
    group = me.group(timeout_s=1.0)
    if me.rank == absent:
        return ""
    try:
        ShmTransport.connect(group, "cpu")
    except TransportError as error:
        return str(error)
    raise AssertionError("one was missing")


@pytest.mark.parametrize("absent", [0, 1])
def test_the_rank_that_does_not_come_is_named(pool: Pool, absent: int) -> None:
    found = pool.run(one_does_not_come, 3, absent)
    for rank in {0, 1, 2} - {absent}:
        assert f"[{absent}]" in found[rank] or f"Rank {absent} " in found[rank]


def half_of_them_have_the_kernel(me: Rank) -> tuple[bool, list[float]]:
    if me.rank == 1:
        os.environ[_shm_kernel.SWITCH] = "off"
    transport = ShmTransport.connect(me.group(), "cpu")
    flat = torch.ones(5)
    transport.allreduce(flat, Reduction.SUM)
    native = transport.is_native
    transport.close()
    return native, flat.tolist()


def test_ranks_go_the_pure_way_where_one_has_no_kernel(pool: Pool) -> None:
    environ = {_shm_kernel.SWITCH: "on"}
    assert pool.run(half_of_them_have_the_kernel, 2, environ=environ) == [(False, [2.0] * 5)] * 2


def wrong_tensors(me: Rank) -> list[str]:
    transport = ShmTransport.connect(me.group(), "cpu")
    told = []
    for call in (
        lambda: transport.allreduce(torch.ones(4, 4).t()[1:], Reduction.SUM),
        lambda: transport.allreduce(torch.ones(4, dtype=torch.complex64), Reduction.SUM),
        lambda: transport.allgather(torch.empty(3), torch.ones(2), [2, 2]),
        lambda: transport.allgather(torch.empty(4, dtype=torch.int8), torch.ones(2), [2, 2]),
        lambda: transport.alltoall(torch.empty(4), torch.ones(3), [2, 2], [2, 2]),
    ):
        try:
            call()
        except ValueError as error:
            told.append(str(error))
    transport.close()
    return told


def test_tensors_of_unsuitable_shape_or_type_are_refused(pool: Pool) -> None:
    for told in pool.run(wrong_tensors, 2):
        assert len(told) == 5


# --- how it waits --------------------------------------------------------------------------------


def waits_long(me: Rank) -> float:
    """Return the CPU time in seconds of a rank that waits a second for the other one."""
    transport = ShmTransport.connect(me.group(), "cpu")
    transport.barrier()
    if me.rank == 1:
        time.sleep(1.0)
    began = time.process_time()
    transport.barrier()
    used = time.process_time() - began
    transport.close()
    return used


@both
def test_waiting_costs_no_processor(pool: Pool, environ: dict[str, str | None]) -> None:
    assert pool.run(waits_long, 2, environ=environ)[0] < 0.3


def bound(me: Rank, cpus: list[int]) -> bool:
    """Return whether a rank with a single processor spins while it waits."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpus[me.rank]})
    try:
        transport = ShmTransport.connect(me.group(), "cpu")
        flat = torch.ones(3)
        transport.allreduce(flat, Reduction.SUM)
        assert flat.tolist() == [2.0] * 3
        spins = transport.is_spinning
        transport.close()
    finally:
        os.sched_setaffinity(0, allowed)
    return spins


@both
def test_bound_ranks_spin_where_each_has_a_processor(
    pool: Pool, environ: dict[str, str | None]
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one processor")
    assert pool.run(bound, 2, cpus[:2], environ=environ) == [True, True]
    assert pool.run(bound, 2, [cpus[0]] * 2, environ=environ) == [False, False]


# --- where things lie ----------------------------------------------------------------------------

sizes = st.integers(1, _shm_layout.MOST_RANKS)


@given(size=sizes, native=st.booleans())
def test_no_two_slots_overlap(size: int, native: bool) -> None:
    layout = _shm_layout.choose_layout(size, native)
    places = [
        (begin(rank, number), length)
        for begin, length in (
            (layout.compute_slot_offset, layout.chunk),
            (layout.compute_second_slot_offset, layout.part),
        )
        for rank in range(size)
        for number in range(_shm_layout.DEPTH)
    ]
    places.sort()
    assert places[0][0] >= _shm_layout.HEADER_BYTES + _shm_layout.LINE_BYTES * size
    for (begin, length), (after, _) in itertools.pairwise(places):
        assert begin + length <= after
    assert places[-1][0] + places[-1][1] <= layout.total
    assert all(begin % _shm_layout.ALIGN == 0 for begin, _ in places)
    assert layout.share * size <= layout.chunk
    assert layout.share > 0


@given(chunk=st.integers(0, 1 << 20), size=sizes)
def test_parts_are_the_chunk_cut_at_whole_elements(chunk: int, size: int) -> None:
    cut = _shm_layout.divide_chunk(chunk, size)
    assert len(cut) == size
    assert cut[0][0] == 0
    assert cut[-1][1] == chunk
    for (_, end), (begin, _) in itertools.pairwise(cut):
        assert end == begin
        assert end % _shm_layout.ALIGN == 0 or end == chunk
    assert max(end - begin for begin, end in cut) <= _shm_layout.Layout(size, chunk).part


@given(total=st.integers(0, 1 << 30), most=st.integers(1 << 10, 1 << 20))
def test_pieces_are_the_whole(total: int, most: int) -> None:
    if total // most > 10_000:
        total %= most * 10_000
    cut = list(_shm_layout.split_pieces(total, most))
    assert len(cut) == _shm_layout.count_rounds([total], most)
    assert sum(end - begin for begin, end in cut) == total
    for number, found in enumerate(cut):
        assert found == _shm_layout.locate_piece(total, number, most)
    begin, end = _shm_layout.locate_piece(total, len(cut), most)
    assert begin == end


# --- the kernel's build --------------------------------------------------------------------------
