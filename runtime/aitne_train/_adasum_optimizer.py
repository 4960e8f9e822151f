"""Optimizer that combines the steps of all ranks by Adasum (Maleki et al. 2021, "Scaling
distributed training with adaptive summation")."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from aitne_train import collectives, context
from aitne_train._distributed_optimizer_base import NamedOptimizer
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import ReduceOp


class AdasumOptimizer(NamedOptimizer):
    """Optimizer that combines the steps of all ranks by Adasum: each rank computes its own step,
    that is the change of its parameters, and applies the combination of all ranks' steps.
    ``DistributedOptimizer`` derives a class from this one and the class of the user's optimizer.
    """

    def _set_up_exchange(self, names: dict[int, str], compression: Any, passes: int) -> None:
        self._names = names
        self._compression = compression
        self._passes = [passes]
        self._came: dict[int, int] = {}
        hook = partial(_count_backward_pass, self._came, names, self._passes)
        hooks = [
            parameter.register_post_accumulate_grad_hook(hook)
            for parameter in self._list_trained_parameters()
        ]
        # Parameters outlive their optimizer; its hooks on them must not.
        weakref.finalize(self, _remove_hooks, hooks).atexit = False

    @property
    def backward_passes_per_step(self) -> int:
        """Number of backward passes whose gradients are accumulated for one step."""
        return self._passes[0]

    def _list_trained_parameters(self) -> list[torch.nn.Parameter]:
        return [
            parameter
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.requires_grad
        ]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set the number of backward passes whose gradients are accumulated for one step."""
        self._passes[0] = passes
        self._came.clear()

    def synchronize(self) -> None:
        """Do nothing: only ``step`` exchanges data between ranks."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Raise ``AssertionError``: steps that are combined by Adasum cannot skip the exchange.

        Raises:
            AssertionError: always.
        """
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer."
        )
        yield

    @mark_collective("optimizer.step()")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Compute this rank's step, that is the change of its parameters, and apply the Adasum of
        the steps of all ranks instead.

        Raises:
            HorovodInternalError: ranks disagree, or the connection to one is lost.
        """
        loss = None if closure is None else closure()
        trained = self._list_trained_parameters()
        for parameter in trained:
            if (
                parameter.grad is None
            ):  # momentum moves it all the same, as on ranks that have a gradient
                parameter.grad = torch.zeros_like(parameter)
        with torch.no_grad():
            before = [parameter.detach().clone() for parameter in trained]
            super().step()
            sent = []
            for parameter, start in zip(trained, before, strict=True):
                row, ctx = self._compression.compress(parameter.detach() - start)
                name = f"adasum.{self._names.get(id(parameter), '')}"
                sent.append((collectives.allreduce_async_(row, name=name, op=ReduceOp.ADASUM), ctx))
            for parameter, start, (handle, ctx) in zip(trained, before, sent, strict=True):
                step = self._compression.decompress(collectives.synchronize(handle), ctx)
                parameter.copy_(start.add_(step))
        self._came.clear()
        context.require_context().recorder.step()
        return loss

    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients as the user's optimizer does.

        Raises:
            AssertionError: gradients were computed since the last ``step``.
        """
        if self._came:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step(): "
                "gradients would be lost to other ranks."
            )
        super().zero_grad(set_to_none)


def _count_backward_pass(
    came: dict[int, int], names: dict[int, str], passes: list[int], parameter: torch.nn.Parameter
) -> None:
    times = came.get(id(parameter), 0) + 1
    if times > passes[0]:
        raise AssertionError(
            f"The gradient of {names[id(parameter)]} was computed more than "
            "backward_passes_per_step times before step(): increase backward_passes_per_step to "
            "accumulate gradients locally."
        )
    came[id(parameter)] = times


def _remove_hooks(hooks: list[Any]) -> None:
    for hook in hooks:
        hook.remove()
