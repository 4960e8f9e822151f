"""Collectives of one tensor: values, types, shapes, names, scales, handles."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from runtime.tests.ranks.conformance import Case, check, equal, refused

REDUCED = (torch.float16, torch.float32, torch.float64, torch.int32, torch.int64)
MOVED = (torch.uint8, torch.int8, torch.int16, *REDUCED)
SHAPES = ((), (1,), (17,), (0, 3), (3, 5), (2, 3, 4))


def pattern(shape: tuple[int, ...], dtype: torch.dtype, rank: int) -> torch.Tensor:
    """Return small whole numbers, which differ between ranks."""
    numbers = torch.zeros(shape).flatten()
    return (torch.arange(numbers.numel()) % 5 + rank + 1).to(dtype).reshape(shape)


@check()
def world(case: Case) -> None:
    hvd = case.hvd
    assert hvd.is_initialized()
    assert 0 <= hvd.rank() < hvd.size()
    assert 0 <= hvd.local_rank() < hvd.local_size() <= hvd.size()
    assert 0 <= hvd.cross_rank() < hvd.cross_size() <= hvd.size()
    hvd.init()
    assert hvd.rank() == case.rank


@check()
def operations_have_their_numbers(case: Case) -> None:
    hvd = case.hvd
    numbers = [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product]
    assert numbers == [0, 1, 2, 3, 4, 5]


@check()
def queries_answer(case: Case) -> None:
    hvd = case.hvd
    for name in ("mpi", "gloo", "ddl", "ccl", "cuda", "rocm"):
        assert isinstance(getattr(hvd, f"{name}_built")(), bool)
    assert isinstance(hvd.nccl_built(), int)
    assert isinstance(hvd.mpi_enabled(), bool)
    assert isinstance(hvd.gloo_enabled(), bool)
    if hvd.mpi_enabled():
        assert isinstance(hvd.mpi_threads_supported(), bool)
    else:
        with refused(ValueError):
            hvd.mpi_threads_supported()


@check()
def allreduce_sums_every_type_and_shape(case: Case) -> None:
    for dtype in REDUCED:
        for shape in SHAPES:
            own = pattern(shape, dtype, case.rank)
            kept = own.clone()
            total = case.hvd.allreduce(own, op=case.hvd.Sum)
            equal(total, sum(pattern(shape, dtype, rank) for rank in range(case.size)))
            equal(own, kept)


@check()
def allreduce_takes_narrow_types_or_refuses_them(case: Case) -> None:
    for dtype in (torch.bfloat16, torch.uint8, torch.int8, torch.int16):
        own = pattern((7,), dtype, case.rank)
        if case.oracle:
            with refused(ValueError, says="not supported"):
                case.hvd.allreduce(own, op=case.hvd.Sum)
            continue
        wanted = sum(pattern((7,), dtype, rank) for rank in range(case.size))
        equal(case.hvd.allreduce(own, op=case.hvd.Sum), wanted)


@check()
def allreduce_refuses_what_has_no_sum(case: Case) -> None:
    for tensor in (torch.tensor([True]), torch.tensor([1j]), torch.ones(3).to_sparse()):
        with refused(ValueError, says="not supported"):
            case.hvd.allreduce(tensor)


@check()
def averages_are_the_default_and_integers_round_towards_zero(case: Case) -> None:
    mean = (case.size - 1) / 2
    equal(case.hvd.allreduce(torch.full((5,), float(case.rank))), torch.full((5,), mean), 1e-6)
    own = torch.tensor([1, 2, -1, -2, 3, -7]) + case.rank
    total = sum(torch.tensor([1, 2, -1, -2, 3, -7]) + rank for rank in range(case.size))
    equal(case.hvd.allreduce(own), torch.div(total, case.size, rounding_mode="trunc"))


@check()
def minimum_maximum_and_product(case: Case) -> None:
    hvd = case.hvd
    for dtype in REDUCED:
        every = torch.stack([pattern((9,), dtype, (rank * 3) % 4) for rank in range(case.size)])
        own = every[case.rank].clone()
        equal(hvd.allreduce(own, op=hvd.Min), every.amin(0))
        equal(hvd.allreduce(own, op=hvd.Max), every.amax(0))
        equal(hvd.allreduce(own, op=hvd.Product), every.double().prod(0).to(dtype))


@check()
def factors_scale_before_and_after(case: Case) -> None:
    hvd = case.hvd
    for dtype in (torch.float32, torch.float64):
        own = pattern((6,), dtype, case.rank)
        total = sum(pattern((6,), dtype, rank) for rank in range(case.size))
        equal(hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.3), total * 0.3, 1e-5)
        equal(hvd.allreduce(own, op=hvd.Sum, postscale_factor=0.3), total * 0.3, 1e-5)
        both = hvd.allreduce(own, prescale_factor=0.5, postscale_factor=4.0)
        equal(both, total * 2 / case.size, 1e-5)
        equal(
            hvd.allreduce(own, op=hvd.Max, prescale_factor=0.5),
            pattern((6,), dtype, case.size - 1) / 2,
        )


@check()
def factors_on_integers_round_towards_zero(case: Case) -> None:
    hvd = case.hvd
    rows = [torch.tensor([1, 2, -3, 7]) + rank for rank in range(case.size)]
    halves = sum(torch.div(row, 2, rounding_mode="trunc") for row in rows)
    equal(hvd.allreduce(rows[case.rank], op=hvd.Sum, prescale_factor=0.5), halves)
    total = torch.div(sum(rows), 2, rounding_mode="trunc")
    equal(hvd.allreduce(rows[case.rank], op=hvd.Sum, postscale_factor=0.5), total)


@check()
def the_old_form_of_op_is_still_there(case: Case) -> None:
    hvd = case.hvd
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        equal(hvd.allreduce(torch.ones(2), average=False), [float(case.size)] * 2)
        equal(hvd.allreduce_(torch.ones(2), True), [1.0, 1.0])
    assert {DeprecationWarning} == {
        each.category for each in caught if "average" in str(each.message)
    }
    with refused(ValueError, says="op"):
        hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum)


@check()
def in_place_writes_into_the_tensor_and_returns_it(case: Case) -> None:
    hvd = case.hvd
    own = torch.ones(4, 2)
    assert hvd.allreduce_(own, op=hvd.Sum) is own
    equal(own, torch.full((4, 2), float(case.size)))
    parameter = torch.nn.Parameter(torch.full((3,), float(case.rank)))
    assert hvd.broadcast_(parameter, case.size - 1) is parameter
    equal(parameter.data, torch.full((3,), float(case.size - 1)))


@check()
def tensors_that_are_not_contiguous_are_taken_or_refused(case: Case) -> None:
    hvd = case.hvd
    own = torch.arange(12.0).view(3, 4).t()
    if case.oracle:
        with refused(ValueError, says="contiguous"):
            hvd.allreduce_(own)
        return
    wanted = torch.arange(12.0).view(3, 4).t() * case.size
    equal(hvd.allreduce(own, op=hvd.Sum), wanted)
    assert hvd.allreduce_(own, op=hvd.Sum) is own
    equal(own, wanted)
    column = torch.full((5, 3), float(case.rank))
    hvd.broadcast_(column[:, 1], case.size - 1)
    assert column.sum(0).tolist() == [5.0 * case.rank, 5.0 * (case.size - 1), 5.0 * case.rank]
    equal(hvd.allgather(own), torch.cat([wanted] * case.size))


@check()
def handles_end_in_any_order(case: Case) -> None:
    hvd = case.hvd
    handles = [
        hvd.allreduce_async(
            torch.full((width,), float(case.rank)), op=hvd.Sum, name=f"many.{width}"
        )
        for width in range(1, 40)
    ]
    total = float(sum(range(case.size)))
    for width, handle in reversed(list(enumerate(handles, 1))):
        equal(hvd.synchronize(handle), torch.full((width,), total))
    assert hvd.synchronize(handles[0]) is None
    with refused(ValueError):
        hvd.poll(handles[0])


@check(ranks=2)
def a_handle_waits_for_other_ranks(case: Case) -> None:
    hvd = case.hvd
    if case.rank == 0:
        handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="waits")
        assert not hvd.poll(handle)
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="waits")
    equal(hvd.synchronize(handle), [float(case.size)] * 2)


@check()
def names_bring_ranks_together_that_ask_in_another_order(case: Case) -> None:
    hvd = case.hvd
    names = [f"order.{index}" for index in range(12)]
    turned = names[case.rank :] + names[: case.rank]
    handles = {
        name: hvd.allreduce_async(torch.full((4,), float(name[6:])), op=hvd.Sum, name=name)
        for name in turned
    }
    for name in names:
        equal(hvd.synchronize(handles[name]), torch.full((4,), float(name[6:]) * case.size))


@check()
def large_and_odd_lengths(case: Case) -> None:
    hvd = case.hvd
    for length in (65_537, 1_000_003):
        own = torch.arange(length, dtype=torch.float32) % 1000 + case.rank
        total = (torch.arange(length, dtype=torch.float32) % 1000) * case.size
        total += sum(range(case.size))
        equal(hvd.allreduce(own, op=hvd.Sum), total)


@check()
def compression_sends_sixteen_bits_and_gives_the_type_back(case: Case) -> None:
    hvd = case.hvd
    kinds = [hvd.Compression.fp16] + ([] if case.oracle else [hvd.Compression.bf16])
    for kind in kinds:
        own = torch.full((5,), 1.0 + 2.0**-4 + case.rank)
        total = sum(1.0 + 2.0**-4 + rank for rank in range(case.size))
        reduced = hvd.allreduce(own, op=hvd.Sum, compression=kind)
        equal(reduced, torch.full((5,), total), 2e-2)
        whole = torch.tensor([100_000 + case.rank])
        assert hvd.allreduce(whole, op=hvd.Max, compression=kind).item() == 99_999 + case.size
    small, context = hvd.Compression.fp16.compress(torch.ones(2, dtype=torch.float64))
    assert small.dtype is torch.float16
    assert hvd.Compression.fp16.decompress(small, context).dtype is torch.float64


@check()
def allgather_of_different_lengths(case: Case) -> None:
    for dtype in MOVED:
        for tail in ((), (3,), (2, 2)):
            rows = [pattern(((rank * 2) % 5, *tail), dtype, rank) for rank in range(case.size)]
            equal(case.hvd.allgather(rows[case.rank]), torch.cat(rows))


@check()
def everything_can_be_moved_or_is_refused(case: Case) -> None:
    hvd = case.hvd
    for dtype in (torch.bool, torch.bfloat16, torch.complex64):
        own = torch.tensor([1, 0, 1]).to(dtype)
        if case.oracle:
            with refused(ValueError, says="not supported"):
                hvd.allgather(own)
            with refused(ValueError, says="not supported"):
                hvd.broadcast(own, 0)
            continue
        equal(hvd.allgather(own), torch.cat([own] * case.size))
        equal(hvd.broadcast(own if case.rank == 0 else torch.zeros_like(own), 0), own)
        deal = own[:1].repeat(case.size)
        equal(hvd.alltoall(deal), deal)


@check()
def a_number_without_dimensions_cannot_be_gathered(case: Case) -> None:
    handle_or_error: Any = None
    with refused(case.hvd.HorovodInternalError):
        handle_or_error = case.hvd.allgather_async(torch.tensor(1.0))
        case.hvd.synchronize(handle_or_error)


@check()
def broadcast_from_every_root(case: Case) -> None:
    for dtype in MOVED:
        for root in range(case.size):
            for shape in SHAPES:
                own = pattern(shape, dtype, case.rank)
                equal(case.hvd.broadcast(own, root), pattern(shape, dtype, root))
                equal(own, pattern(shape, dtype, case.rank))
                case.hvd.broadcast_(own, root)
                equal(own, pattern(shape, dtype, root))


@check()
def a_root_that_is_not_there_is_refused(case: Case) -> None:
    for root in (-1, case.size):
        with refused(ValueError, says="root"):
            case.hvd.broadcast(torch.ones(2), root)


@check()
def alltoall_in_equal_parts(case: Case) -> None:
    for dtype in MOVED:
        own = torch.stack([pattern((2,), dtype, case.rank + to) for to in range(case.size)])
        wanted = torch.stack([pattern((2,), dtype, case.rank + of) for of in range(case.size)])
        equal(case.hvd.alltoall(own), wanted)


@check()
def alltoall_in_parts_that_are_said(case: Case) -> None:
    hvd, size, rank = case.hvd, case.size, case.rank
    splits = torch.tensor([(rank + to) % 3 for to in range(size)], dtype=torch.int32)
    own = torch.repeat_interleave(torch.arange(size, dtype=torch.float32) + 10 * rank, splits)
    received = [(of + rank) % 3 for of in range(size)]
    wanted = [10.0 * of + rank for of in range(size) for _ in range(received[of])]
    for given in (splits, splits.tolist()):
        output, counts = hvd.alltoall(own, given)
        equal(output, torch.tensor(wanted))
        equal(counts, torch.tensor(received, dtype=torch.int32))
    output, counts = hvd.synchronize(hvd.alltoall_async(torch.ones(2 * size, 3)))
    equal(output, torch.ones(2 * size, 3))
    assert counts.tolist() == [2] * size


@check()
def alltoall_leaves_rows_beyond_the_splits(case: Case) -> None:
    own = torch.arange(case.size + 3.0) + 10 * case.rank
    output, counts = case.hvd.alltoall(own, [1] * case.size)
    equal(output, [10.0 * of + case.rank for of in range(case.size)])
    assert counts.tolist() == [1] * case.size


@check()
def alltoall_refuses_splits_that_do_not_fit(case: Case) -> None:
    hvd, size = case.hvd, case.size
    with refused(ValueError):
        hvd.alltoall(torch.ones(size), torch.ones(size))
    with refused(ValueError):
        hvd.alltoall(torch.ones(size), torch.ones(size + 1, dtype=torch.int32))
    with refused(ValueError):
        hvd.alltoall(torch.ones(size), torch.full((size,), 2, dtype=torch.int32))
    if size > 1:
        with refused(ValueError):
            hvd.alltoall(torch.ones(size + 1))


@check()
def reducescatter_gives_the_first_ranks_the_odd_rows(case: Case) -> None:
    hvd, size, rank = case.hvd, case.size, case.rank
    for rows in (1, size, 2 * size + 1):
        share, extra = divmod(rows, size)
        begin = rank * share + min(rank, extra)
        end = begin + share + (rank < extra)
        for dtype in REDUCED:
            total = sum(pattern((rows, 3), dtype, each) for each in range(size))
            own = pattern((rows, 3), dtype, rank)
            equal(hvd.reducescatter(own, op=hvd.Sum), total[begin:end])
        mean = hvd.reducescatter(pattern((rows, 3), torch.float32, rank))
        wanted = sum(pattern((rows, 3), torch.float32, each) for each in range(size)) / size
        equal(mean, wanted[begin:end], 1e-6)


@check()
def reducescatter_scales(case: Case) -> None:
    hvd = case.hvd
    own = torch.ones(case.size, 2)
    got = hvd.reducescatter(own, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    equal(got, torch.full((1, 2), 1.5 * case.size))
    small = hvd.reducescatter(own, op=hvd.Sum, compression=hvd.Compression.fp16)
    equal(small, torch.full((1, 2), float(case.size)))


@check()
def reducescatter_sums_and_averages_only(case: Case) -> None:
    hvd = case.hvd
    for op in (hvd.Min, hvd.Max, hvd.Product):
        with refused(hvd.HorovodInternalError):
            hvd.reducescatter(torch.ones(case.size), op=op)


@check()
def barriers_hold(case: Case) -> None:
    for _ in range(5):
        assert case.hvd.barrier() is None
