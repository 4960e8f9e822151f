"""Groups of tensors, process sets, joined ranks, sparse tensors and Adasum."""

from __future__ import annotations

import torch
from runtime.tests.ranks.conformance import Case, check, equal, even_out, refused


@check()
def grouped_allreduce_in_all_its_forms(case: Case) -> None:
    hvd, total = case.hvd, float(sum(range(1, case.size + 1)))

    def own() -> list[torch.Tensor]:
        return [torch.full((2,), case.rank + 1.0), torch.full((3, 2), case.rank + 1.0)]

    wanted = [torch.full((2,), total), torch.full((3, 2), total)]
    listed = hvd.grouped_allreduce(own(), op=hvd.Sum)
    assert isinstance(listed, list)
    handle = hvd.grouped_allreduce_async(own(), op=hvd.Sum, name="group")
    later = hvd.synchronize(handle)
    assert isinstance(later, tuple)
    group = own()
    returned = hvd.grouped_allreduce_(group, op=hvd.Sum, name="group.in.place")
    assert all(one is other for one, other in zip(returned, group, strict=True))
    small = hvd.grouped_allreduce(own(), op=hvd.Sum, compression=hvd.Compression.fp16)
    for results in (listed, later, group, small):
        for got, want in zip(results, wanted, strict=True):
            equal(got, want)
    means = hvd.grouped_allreduce(own(), prescale_factor=2.0)
    equal(means[0], torch.full((2,), 2 * total / case.size), 1e-6)


@check()
def groups_may_mix_types(case: Case) -> None:
    hvd = case.hvd
    got = hvd.grouped_allreduce(
        [torch.ones(3), torch.ones(2, dtype=torch.int64), torch.ones(1, dtype=torch.float64)],
        op=hvd.Sum,
    )
    for tensor, dtype in zip(got, (torch.float32, torch.int64, torch.float64), strict=True):
        assert tensor.dtype is dtype
        assert set(tensor.tolist()) == {case.size}


@check()
def a_group_of_none_is_refused(case: Case) -> None:
    with refused(ValueError):
        case.hvd.grouped_allreduce([])


@check()
def grouped_allgather_and_reducescatter(case: Case) -> None:
    hvd, size = case.hvd, case.size
    one, two = hvd.grouped_allgather([torch.full((case.rank,), 1.0), torch.full((1, 2), case.rank)])
    assert one.shape == (sum(range(size)),)
    equal(two, torch.arange(size)[:, None].expand(-1, 2))
    own = [torch.ones(size + 1), torch.ones(size, 2)]
    shares = hvd.grouped_reducescatter(own, op=hvd.Sum)
    equal(shares[0], torch.full((2 if case.rank == 0 else 1,), float(size)))
    equal(shares[1], torch.full((1, 2), float(size)))


@check()
def sparse_tensors_are_added(case: Case) -> None:
    hvd = case.hvd
    own = torch.sparse_coo_tensor(
        [[case.rank, case.size]],
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        (case.size + 1, 2),
        check_invariants=True,
    )
    for op, divisor in ((hvd.Sum, 1), (hvd.Average, case.size)):
        got = hvd.sparse_allreduce_async(own, f"sparse.{divisor}", op)().to_dense()
        wanted = torch.tensor([[1.0, 2.0]] * case.size + [[3.0 * case.size, 4.0 * case.size]])
        equal(got, wanted / divisor, 1e-6)


def adasum(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the Adasum of two gradients (Maleki et al. 2021, arXiv:2006.02924, equation 3)."""
    both = a.dot(b)
    return (1 - both / (2 * a.dot(a))) * a + (1 - both / (2 * b.dot(b))) * b


def adasum_tree(vectors: list[torch.Tensor]) -> torch.Tensor:
    power = 1 << (len(vectors).bit_length() - 1)
    rows = [adasum(row, other) for row, other in zip(vectors, vectors[power:], strict=False)]
    rows += vectors[len(rows) : power]
    while len(rows) > 1:
        rows = [adasum(one, two) for one, two in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]


@check()
def adasum_is_its_formula(case: Case) -> None:
    hvd = case.hvd
    if case.oracle and case.size & (case.size - 1):
        with refused(NotImplementedError):
            hvd.allreduce(torch.ones(3), op=hvd.Adasum)
        return
    for length in (1, 7, 1000):
        noise = torch.Generator().manual_seed(length)
        every = torch.randn(case.size, length, generator=noise, dtype=torch.float64)
        wanted = adasum_tree(list(every))
        for dtype, tolerance in (
            (torch.float64, 1e-9),
            (torch.float32, 1e-5),
            (torch.float16, 1e-2),
        ):
            own = every[case.rank].to(dtype)
            equal(hvd.allreduce(own, op=hvd.Adasum), wanted.to(dtype), tolerance)
    apart = torch.zeros(case.size)
    apart[case.rank] = 2.0
    equal(hvd.allreduce(apart, op=hvd.Adasum), torch.full((case.size,), 2.0))
    alike = torch.full((5,), 3.0)
    equal(hvd.allreduce(alike, op=hvd.Adasum), alike, 1e-6)
    zeros = torch.zeros(4)
    equal(hvd.allreduce(zeros, op=hvd.Adasum), zeros)


@check()
def adasum_is_for_floats(case: Case) -> None:
    with refused(case.hvd.HorovodInternalError, ValueError, NotImplementedError):
        case.hvd.allreduce(torch.ones(4, dtype=torch.int32), op=case.hvd.Adasum)


@check()
def join_lets_the_others_go_on(case: Case) -> None:
    hvd = case.hvd
    steps = 2 + case.rank
    for step in range(steps):
        there = [rank for rank in range(case.size) if step < 2 + rank]
        own = torch.full((3,), case.rank + 1.0)
        total = float(sum(rank + 1 for rank in there))
        equal(hvd.allreduce(own, op=hvd.Sum, name="uneven"), torch.full((3,), total))
        equal(hvd.allreduce(own, name="uneven.mean"), torch.full((3,), total / case.size), 1e-6)
        one, two = hvd.grouped_allreduce([own, own.double()], op=hvd.Sum, name="uneven.group")
        assert one.tolist() == two.tolist() == [total] * 3
    assert hvd.join() == case.size - 1
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum, name="uneven.after"), [float(case.size)])


@check(ranks=2)
def joined_ranks_give_zeros(case: Case) -> None:
    hvd = case.hvd
    if case.rank > 0:
        own = torch.full((2,), 5.0)
        if case.oracle:
            equal(hvd.allreduce(own, op=hvd.Min, name="zeros.min"), [0.0, 0.0])
        else:  # A minimum over real values and zeros has no use.
            with refused(hvd.HorovodInternalError, says="join"):
                hvd.allreduce(own, op=hvd.Min, name="zeros.min")
        whole = hvd.allreduce(torch.tensor([6, 7]), op=hvd.Sum, name="zeros.whole")
        equal(whole, torch.tensor([6, 7]) * (case.size - 1))
    hvd.join()


@check(ranks=2)
def joined_ranks_cannot_gather(case: Case) -> None:
    hvd = case.hvd
    if case.rank > 0:
        with refused(hvd.HorovodInternalError):
            hvd.allgather(torch.ones(2), name="joined.gather")
        with refused(hvd.HorovodInternalError):
            hvd.broadcast(torch.ones(2), 1, name="joined.broadcast")
    hvd.join()


@check()
def the_set_of_all_ranks(case: Case) -> None:
    everyone = case.hvd.global_process_set
    assert everyone.process_set_id == 0
    assert everyone.size() == case.size
    assert everyone.rank() == case.rank
    assert everyone.included()
    assert list(everyone.ranks) == list(range(case.size))


@check(ranks=2)
def a_set_from_the_start(case: Case) -> None:
    hvd, first = case.hvd, case.sets["first"]
    assert first.process_set_id > 0
    assert first.size() == 1
    assert first.included() == (case.rank == 0)
    if case.rank == 0:
        assert first.rank() == 0
        equal(hvd.allreduce(torch.full((2,), 7.0), op=hvd.Sum, process_set=first), [7.0, 7.0])
    else:
        with refused(ValueError):
            first.rank()


@check(ranks=3)
def sets_that_come_and_go(case: Case) -> None:
    hvd, size, rank = case.hvd, case.size, case.rank
    last = hvd.add_process_set(hvd.ProcessSet([size - 1, size - 2]))
    assert list(last.ranks) == [size - 2, size - 1]
    with refused(ValueError, says="duplicate"):
        hvd.add_process_set([size - 2, size - 1])
    ends = hvd.add_process_set([0, size - 1])
    for process_set in (last, ends):
        even_out(case)
        members = list(process_set.ranks)
        assert process_set.included() == (rank in members)
        if rank not in members:
            continue
        assert process_set.rank() == members.index(rank)
        every = [float(member) for member in members]
        own = torch.full((2,), float(rank))
        equal(hvd.allreduce(own, op=hvd.Sum, process_set=process_set), [sum(every)] * 2)
        equal(hvd.allreduce(own, process_set=process_set), [sum(every) / 2] * 2)
        equal(hvd.allgather(own[:1], process_set=process_set), every)
        equal(hvd.broadcast(own, members[1], process_set=process_set), [every[1]] * 2)
        with refused(ValueError, says="root"):
            hvd.broadcast(own, 1 if members[0] == 0 else 0, process_set=process_set)
        equal(hvd.alltoall(own, process_set=process_set), every)
        equal(hvd.reducescatter(own, op=hvd.Sum, process_set=process_set), [sum(every)])
        one, two = hvd.grouped_allreduce([own, own], op=hvd.Max, process_set=process_set)
        assert one.tolist() == two.tolist() == [every[1]] * 2
        hvd.barrier(process_set=process_set)
        assert hvd.broadcast_object({"from": rank}, members[0], process_set=process_set) == {
            "from": members[0]
        }
        leaf = torch.ones(2, requires_grad=True)
        hvd.allgather(leaf, process_set=process_set).backward(torch.ones(4))
        equal(leaf.grad, [1.0, 1.0])
    even_out(case)
    equal(hvd.allreduce(torch.ones(1), op=hvd.Sum), [float(size)])
    assert hvd.remove_process_set(last)
    assert last.process_set_id is None
    assert last.size() is None
    assert not hvd.remove_process_set(last)
    assert not hvd.remove_process_set(hvd.global_process_set)
    again = hvd.add_process_set([size - 2, size - 1])
    assert hvd.remove_process_set(again)
    assert hvd.remove_process_set(ends)


@check()
def a_set_of_other_things_is_refused(case: Case) -> None:
    with refused(ValueError):
        case.hvd.ProcessSet([0.5])
