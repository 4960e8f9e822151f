"""Objects, parameters, optimizer states, and batch normalization over all ranks."""

from __future__ import annotations

from typing import Any

import torch
from runtime.tests.ranks.conformance import Case, check, equal, refused
from torch import nn


class Named:
    """Something of a program's own, to be pickled."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.value == self.value

    __hash__ = None  # type: ignore[assignment]


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@check()
def objects_are_broadcast(case: Case) -> None:
    for root in range(case.size):
        own = {"rank": case.rank, "many": list(range(1000 * case.rank)), "named": Named(case.rank)}
        got = case.hvd.broadcast_object(own, root, name=f"object.{root}")
        assert got == {"rank": root, "many": list(range(1000 * root)), "named": Named(root)}
    assert case.hvd.broadcast_object(case.rank) == 0


@check(
    oracle_cannot="names the exchange after the object's type, and waits for ever if types differ"
)
def objects_elsewhere_do_not_matter(case: Case) -> None:
    assert case.hvd.broadcast_object({"a": 1} if case.rank == 0 else None) == {"a": 1}
    assert len(case.hvd.allgather_object("s" if case.rank else 5)) == case.size


@check()
def objects_are_gathered(case: Case) -> None:
    own = {"rank": case.rank, "many": "x" * 100 * case.rank}
    got = case.hvd.allgather_object(own)
    assert got == [{"rank": rank, "many": "x" * 100 * rank} for rank in range(case.size)]


@check()
def parameters_are_broadcast(case: Case) -> None:
    root = case.size - 1
    for given in (
        lambda model: model.state_dict(),
        lambda model: list(model.named_parameters()),
        lambda model: list(model.parameters()),
    ):
        model = network(case.rank)
        case.hvd.broadcast_parameters(given(model), root_rank=root)
        for own, wanted in zip(model.parameters(), network(root).parameters(), strict=True):
            equal(own.data, wanted.data)
            assert own.requires_grad
    with refused(ValueError, says="invalid params"):
        case.hvd.broadcast_parameters(5, 0)


@check(oracle_cannot="takes lists and dicts only, though its documentation names these")
def parameters_may_come_one_by_one(case: Case) -> None:
    model = network(case.rank)
    case.hvd.broadcast_parameters(model.named_parameters(), root_rank=0)
    case.hvd.broadcast_parameters(model.buffers(), root_rank=0)
    for own, wanted in zip(model.parameters(), network(0).parameters(), strict=True):
        equal(own.data, wanted.data)


OPTIMIZERS: list[tuple[type[torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.9), "amsgrad": True}),
    (torch.optim.AdamW, {"lr": 0.01}),
    (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    (torch.optim.Adagrad, {"lr": 0.01}),
    (torch.optim.Adadelta, {"lr": 0.5}),
    (torch.optim.Rprop, {"lr": 0.01, "etas": (0.4, 1.3)}),
]


def stepped(kind: Any, options: dict[str, Any], seed: int, steps: int) -> tuple[nn.Module, Any]:
    torch.manual_seed(seed)
    model = nn.Linear(3, 2)
    optimizer = kind(model.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).pow(2).sum().backward()
        optimizer.step()
    return model, optimizer


def same_state(got: Any, wanted: Any) -> None:
    if isinstance(wanted, torch.Tensor):
        equal(got, wanted)
    elif isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        for key, value in wanted.items():
            same_state(got[key], value)
    elif isinstance(wanted, (list, tuple)):
        assert type(got) is type(wanted)
        for one, other in zip(got, wanted, strict=True):
            same_state(one, other)
    else:
        assert type(got) is type(wanted), (got, wanted)
        assert got == wanted


@check()
def optimizer_states_are_broadcast(case: Case) -> None:
    # The real one leaves the options alone where there is no state.
    for kind, options in OPTIMIZERS[1:] if case.oracle else OPTIMIZERS:
        own = {**options, "lr": options["lr"] * (1 + case.rank)}
        _, optimizer = stepped(kind, own, seed=case.rank, steps=3)
        _, root = stepped(kind, options, seed=0, steps=3)
        case.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        same_state(optimizer.state_dict(), root.state_dict())


@check(ranks=2)
def a_resumed_root_gives_new_ranks_its_state(case: Case) -> None:
    for kind, options in OPTIMIZERS[1:]:
        model, optimizer = stepped(kind, options, seed=0, steps=3 if case.rank == 0 else 0)
        root_model, root = stepped(kind, options, seed=0, steps=3)
        # The real one steps, so what weight decay changes there has to be written over afterwards.
        case.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        case.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        same_state(optimizer.state_dict(), root.state_dict())
        for each in (optimizer, root):
            each.zero_grad()
        for each in (model, root_model):
            each(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        root.step()
        for own, wanted in zip(model.parameters(), root_model.parameters(), strict=True):
            equal(own.data, wanted.data)


@check()
def optimizers_that_never_stepped(case: Case) -> None:
    for kind, options in OPTIMIZERS[1:] if case.oracle else OPTIMIZERS:
        own = {**options, "lr": options["lr"] * (1 + case.rank)}
        model, optimizer = stepped(kind, own, seed=0, steps=0)
        case.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == options["lr"]
        if kind is not torch.optim.Adagrad:  # It has its state from the start.
            assert all(not p.grad.any() for p in model.parameters())


@check(oracle_cannot="steps to make the state, so weight decay changes the parameters")
def states_are_broadcast_without_a_step(case: Case) -> None:
    model, optimizer = stepped(torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.5}, seed=0, steps=0)
    kept = [p.detach().clone() for p in model.parameters()]
    case.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for own, before in zip(model.parameters(), kept, strict=True):
        equal(own.data, before)


@check()
def lbfgs_is_refused(case: Case) -> None:
    optimizer = torch.optim.LBFGS(nn.Linear(1, 1).parameters())
    with refused(ValueError, says="LBFGS"):
        case.hvd.broadcast_optimizer_state(optimizer, root_rank=0)


@check(oracle_cannot="takes GPU tensors only")
def batch_normalization_of_all_ranks_is_that_of_one_batch(case: Case) -> None:
    hvd = case.hvd
    for momentum, affine in ((0.1, True), (None, True), (0.3, False)):
        for tail in ((), (5,), (2, 3)):
            torch.manual_seed(7)
            lengths = [3 + 2 * rank for rank in range(case.size)]
            begin = sum(lengths[: case.rank])
            mine = slice(begin, begin + lengths[case.rank])
            whole = torch.randn(sum(lengths), 4, *tail, dtype=torch.float64) * 3 + 100
            slopes = torch.randn_like(whole)
            synchronized = hvd.SyncBatchNorm(4, momentum=momentum, affine=affine).double()
            alone = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d}[len(tail)](
                4, momentum=momentum, affine=affine
            ).double()
            for _ in range(2):
                part = whole[mine].clone().requires_grad_()
                full = whole.clone().requires_grad_()
                got, wanted = synchronized(part), alone(full)
                equal(got.detach(), wanted.detach()[mine], 1e-9)
                got.backward(slopes[mine])
                wanted.backward(slopes)
                equal(part.grad, full.grad[mine], 1e-9)
            equal(synchronized.running_mean, alone.running_mean, 1e-9)
            equal(synchronized.running_var, alone.running_var, 1e-9)
            assert synchronized.num_batches_tracked == alone.num_batches_tracked
            if affine:
                for name in ("weight", "bias"):
                    own = getattr(synchronized, name).grad
                    equal(hvd.allreduce(own, op=hvd.Sum), getattr(alone, name).grad, 1e-8)
            synchronized.eval()
            alone.eval()
            equal(synchronized(whole).detach(), alone(whole).detach(), 1e-9)


@check(oracle_cannot="takes GPU tensors only")
def batch_normalization_in_other_conditions(case: Case) -> None:
    hvd = case.hvd
    with refused(ValueError, says="2D"):
        hvd.SyncBatchNorm(3)(torch.ones(3))
    untracked = hvd.SyncBatchNorm(2, track_running_stats=False).eval()
    own = torch.full((2, 2), float(case.rank)) + torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    every = torch.cat([own - case.rank + rank for rank in range(case.size)])
    wanted = nn.functional.batch_norm(every, None, None, None, None, True)
    equal(untracked(own).detach(), wanted[2 * case.rank : 2 * case.rank + 2], 1e-5)
    half = hvd.SyncBatchNorm(2)(own.bfloat16())
    assert half.dtype is torch.bfloat16
    # A rank may have run out of data.
    part = torch.ones(0, 2) if case.rank == 0 and case.size > 1 else own
    assert hvd.SyncBatchNorm(2)(part).shape == part.shape
