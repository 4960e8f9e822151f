"""Ranks that request different collectives: an error on every rank, and later requests succeed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from runtime.tests.ranks.conformance import Case, check, equal, refused


def fails_everywhere(case: Case, ask: Callable[[], Any], says: str = "") -> None:
    with refused(case.hvd.HorovodInternalError, says=says):
        ask()
    equal(case.hvd.allreduce(torch.ones(2), op=case.hvd.Sum), [float(case.size)] * 2)


@check(ranks=2)
def in_shape(case: Case) -> None:
    hvd, last = case.hvd, case.rank == case.size - 1
    fails_everywhere(case, lambda: hvd.allreduce(torch.ones(3 if last else 2), name="d.1"), "shape")
    fails_everywhere(
        case, lambda: hvd.allreduce(torch.ones((2, 3) if last else (6,)), name="d.2"), "shape"
    )
    fails_everywhere(case, lambda: hvd.allgather(torch.ones(2, 3 if last else 2), name="d.3"))
    fails_everywhere(case, lambda: hvd.allgather(torch.ones((2, 2) if last else (2,)), name="d.4"))
    fails_everywhere(case, lambda: hvd.broadcast(torch.ones(3 if last else 2), 0, name="d.5"))
    fails_everywhere(
        case, lambda: hvd.alltoall(torch.ones(case.size, 3 if last else 2), name="d.6")
    )
    fails_everywhere(case, lambda: hvd.reducescatter(torch.ones(6 if last else 4), name="d.7"))


@check(ranks=2)
def in_type(case: Case) -> None:
    hvd = case.hvd
    own = torch.ones(case.size, dtype=torch.float64 if case.rank == 0 else torch.int32)
    fails_everywhere(case, lambda: hvd.allreduce(own, name="t.1"), "type")
    fails_everywhere(case, lambda: hvd.allgather(own, name="t.2"), "type")
    fails_everywhere(case, lambda: hvd.broadcast(own, 0, name="t.3"), "type")
    fails_everywhere(case, lambda: hvd.alltoall(own, name="t.4"), "type")
    fails_everywhere(case, lambda: hvd.reducescatter(own, name="t.5"), "type")


@check(ranks=2)
def in_operation_and_factors(case: Case) -> None:
    hvd, zero = case.hvd, case.rank == 0
    own = torch.ones(2)
    fails_everywhere(
        case, lambda: hvd.allreduce(own, op=hvd.Sum if zero else hvd.Min, name="o.1"), "reduction"
    )
    fails_everywhere(
        case, lambda: hvd.allreduce(own, prescale_factor=2.0 if zero else 1.0, name="o.2"), "factor"
    )
    fails_everywhere(
        case,
        lambda: hvd.allreduce(own, postscale_factor=2.0 if zero else 1.0, name="o.3"),
        "factor",
    )


@check(ranks=2)
def in_root(case: Case) -> None:
    fails_everywhere(
        case, lambda: case.hvd.broadcast(torch.ones(2), case.rank % 2, name="r"), "root"
    )


@check(ranks=2)
def in_one_tensor_of_a_group(case: Case) -> None:
    own = [torch.ones(2), torch.ones(3 if case.rank == 0 else 4)]
    fails_everywhere(case, lambda: case.hvd.grouped_allreduce(own, name="g"))


@check(ranks=2, oracle_cannot="waits for ever")
def in_kind_or_name(case: Case) -> None:
    hvd, zero = case.hvd, case.rank == 0
    own = torch.ones(2)
    fails_everywhere(
        case, lambda: hvd.allreduce(own, name="k") if zero else hvd.allgather(own, name="k")
    )
    fails_everywhere(case, lambda: hvd.allreduce(own, name="mine" if zero else "other"))


@check()
def about_an_operation_that_does_not_exist(case: Case) -> None:
    fails_everywhere(case, lambda: case.hvd.allreduce(torch.ones(2), op=17, name="none"))


@check(ranks=2)
def a_name_that_is_in_use(case: Case) -> None:
    hvd = case.hvd
    if case.rank == 0:
        handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="twice")
        with refused(ValueError):
            hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="twice")
        hvd.barrier()
    else:
        hvd.barrier()
        handle = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="twice")
    equal(hvd.synchronize(handle), [float(case.size)] * 2)


@check(ranks=2)
def one_name_for_two_kinds_is_no_disagreement(case: Case) -> None:
    hvd = case.hvd
    total = hvd.allreduce_async(torch.ones(2), op=hvd.Sum, name="both")
    rows = hvd.allgather_async(torch.ones(2), name="both")
    equal(hvd.synchronize(rows), [1.0] * 2 * case.size)
    equal(hvd.synchronize(total), [float(case.size)] * 2)
