"""Functions that ranks run in the tests of GPU support, with stand-ins for GPUs."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import aitne_train as hvd
from aitne_train import context
from aitne_train.execution import Execution
from tests.support.rank import Rank


class OnGpu(nn.Parameter):
    """A parameter that claims to be on a GPU."""

    @property
    def is_cuda(self) -> bool:
        return True


def applies_an_aborted_exchange(me: Rank) -> tuple[bool, bool]:
    """Lose a rank during a step; return whether the step raised and whether the parameter changed."""
    hvd.init()
    model = nn.Linear(2, 1, bias=False)
    model.weight = OnGpu(torch.ones(1, 2))
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters()
    )
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    exchange = optimizer._gradients._strategy.on_step

    def aborted() -> None:
        exchange()
        context.require_context().engine.fail("Rank 1 is gone: its connection closed.")

    optimizer._gradients._strategy.on_step = aborted
    before = model.weight.detach().clone()
    model(torch.ones(1, 2)).sum().backward()
    raised = False
    try:
        optimizer.step()
    except hvd.HorovodInternalError:
        raised = True
    hvd.shutdown()
    return raised, not torch.equal(before, model.weight.detach())


class Operations(TorchDispatchMode):
    """Record the operations, and the sizes of their results in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.most_float64 = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.add(func.overloadpacket.__name__)
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype is torch.float64:
                self.most_float64 = max(self.most_float64, leaf.numel())
        return result


def normalizes(me: Rank) -> tuple[set[str], int, float]:
    """Return the operations of SyncBatchNorm, and its difference to BatchNorm of the whole batch."""
    hvd.init()
    torch.manual_seed(3)
    whole = torch.randn(4 * me.size, 3, 5, 5) * 2 + 50
    slopes = torch.randn_like(whole)
    mine = slice(4 * me.rank, 4 * me.rank + 4)
    part, full = whole[mine].clone().requires_grad_(), whole.clone().requires_grad_()
    layer, alone = hvd.SyncBatchNorm(3, momentum=None), nn.BatchNorm2d(3, momentum=None)
    with Operations() as operations:
        output = layer(part)
        output.backward(slopes[mine])
    wanted = alone(full)
    wanted.backward(slopes)
    assert part.grad is not None
    assert full.grad is not None
    pairs = [
        (output, wanted[mine]),
        (part.grad, full.grad[mine]),
        (layer.running_mean, alone.running_mean),
        (layer.running_var, alone.running_var),
    ]
    difference = max(float((got - want).detach().abs().max()) for got, want in pairs)
    hvd.shutdown()
    return operations.names, operations.most_float64, difference


def opens_channels_in_two_threads(me: Rank) -> list[str]:
    """Return the names of the transports in the order in which this rank connects them."""
    hvd.init()
    connected: list[str] = []
    connect = Execution.connect_transport

    def recorded(self: Execution, name: str, set_id: int, device: str) -> Any:
        connected.append(name)
        return connect(self, name, set_id, device)

    Execution.connect_transport = recorded  # type: ignore[method-assign]
    try:
        names = ["a", "b", "c", "d"]
        channels: dict[str, Any] = {}

        def opens(name: str) -> None:
            channels[name] = context.require_context().open_channel(name, {})

        threads = [
            threading.Thread(target=opens, args=(name,))
            for name in (names if me.rank == 0 else reversed(names))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = [f"{name}{channels[name]._number}" for name in names]
    finally:
        Execution.connect_transport = connect  # type: ignore[method-assign]
    hvd.shutdown()
    return [*connected, *numbers]
