"""Learning rates and an optimizer for large batches.

Goyal et al. 2017, "Accurate, large minibatch SGD: training ImageNet in 1 hour" (linear scaling,
gradual warm-up); You, Gitman and Ginsburg 2017, "Large batch training of convolutional networks" (LARS).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch


def linear_scaling(rate: float, batch: int, reference_batch: int) -> float:
    """Return the learning rate for batches of ``batch`` examples, scaled in proportion to the batch
    size.

    Args:
        rate: learning rate for ``reference_batch``.
        batch: number of examples in a step, over all ranks and all accumulated backward passes.
        reference_batch: number of examples in a step for which ``rate`` was determined.

    Raises:
        ValueError: a batch size is not positive.
    """
    if batch < 1 or reference_batch < 1:
        raise ValueError(
            f"batches of {batch} and {reference_batch} examples: both must be positive"
        )
    return rate * batch / reference_batch


class GradualWarmUp(torch.optim.lr_scheduler.LRScheduler):
    """Scheduler that raises the learning rate linearly from ``1/factor`` of the optimizer's learning
    rate to the whole of it.

    The optimizer is created with the rate to reach. If ``factor`` is the number of ranks, training
    begins at the rate for a single rank. The rate depends only on the number of steps, so a run
    that is resumed with ``state_dict`` continues at the same rate. ::

        optimizer = torch.optim.SGD(model.parameters(), lr=linear_scaling(0.1, 32 * hvd.size(), 256))
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
        scheduler = GradualWarmUp(
            optimizer, hvd.size(), 5 * steps, after=step_decay([30 * steps, 60 * steps, 80 * steps])
        )

    Args:
        optimizer: optimizer whose learning rate is the one to reach.
        factor: ratio of the rate to reach to the initial rate; at least 1.
        steps: number of calls of ``step`` until the rate is reached; 0 for no warm-up.
        after: function of the number of steps so far, warm-up included, that returns a further
            factor of the rate; None for no such factor.
        last_epoch: as for the schedulers of PyTorch.

    Raises:
        ValueError: ``factor`` is less than 1, or ``steps`` is negative.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        factor: float,
        steps: int,
        after: Callable[[int], float] | None = None,
        last_epoch: int = -1,
    ) -> None:
        if factor < 1 or steps < 0:
            raise ValueError(f"factor is {factor} and steps {steps}: they must be at least 1 and 0")
        self.factor = factor
        self.steps = steps
        self._after = after
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the current learning rate of each parameter group."""
        progress = min(self.last_epoch / self.steps, 1.0) if self.steps else 1.0
        part = (1.0 + (self.factor - 1.0) * progress) / self.factor
        decayed = 1.0 if self._after is None else self._after(self.last_epoch)
        return [base * part * decayed for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the learning rates. The function ``after`` is not part of
        it; the program passes it again.
        """
        return {key: value for key, value in super().state_dict().items() if key != "_after"}


def step_decay(milestones: Sequence[int], gamma: float = 0.1) -> Callable[[int], float]:
    """Return a function of the step number: ``gamma`` to the power of the number of milestones
    reached at that step. It is meant for ``GradualWarmUp(after=...)``.
    """
    ordered = sorted(milestones)
    return lambda step: float(gamma ** bisect_right(ordered, step))


class LARS(torch.optim.Optimizer):
    """SGD with momentum that scales the learning rate of each tensor by ``|w| / (|g| + weight_decay
    |w|)``.

    This is algorithm 1 of the paper: ``v = momentum v + lr trust |w| / (|g| + weight_decay |w|) (g
    + weight_decay w)``; ``w = w - v``. If ``|w|`` or ``|g|`` is zero, and in parameter groups with
    ``adapt=False`` (usual for biases and normalization, which the paper does not distinguish), the
    factor ``trust |w| / (|g| + weight_decay |w|)`` is omitted. The update is then plain SGD whose
    momentum includes the learning rate.

    Args:
        params: parameters, or dicts of parameter groups.
        lr: global learning rate.
        momentum: fraction of the previous ``v`` that is kept.
        weight_decay: weight decay of the formula.
        trust: trust coefficient (the paper's eta): the size of a layer's step relative to the norm
            of its weights.
        adapt: whether to scale the learning rate of each tensor; parameter groups can override it.

    Raises:
        ValueError: a number is negative.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        adapt: bool = True,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "adapt": adapt,
        }
        for name in ("lr", "momentum", "weight_decay", "trust"):
            if defaults[name] < 0:
                raise ValueError(f"{name} is {defaults[name]}; it must not be negative")
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one optimization step; return the result of ``closure``, or None without a
        closure.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step_group(group, parameters)
        return loss

    def _step_group(self, group: dict[str, Any], parameters: list[torch.nn.Parameter]) -> None:
        decay, rate = group["weight_decay"], group["lr"]
        gradients = [parameter.grad for parameter in parameters]
        changes = torch._foreach_add(gradients, parameters, alpha=decay)
        rates = [rate] * len(parameters)
        if group["adapt"]:
            # Both lists of norms in one tensor: one wait for a GPU, not one a parameter.
            norms = torch.stack(
                [*torch._foreach_norm(parameters), *torch._foreach_norm(gradients)]
            ).tolist()
            rates = [
                rate
                * (group["trust"] * weight / (grad + decay * weight) if weight and grad else 1.0)
                for weight, grad in zip(
                    norms[: len(parameters)], norms[len(parameters) :], strict=True
                )
            ]
        torch._foreach_mul_(changes, rates)
        velocities = []
        for parameter in parameters:
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            velocities.append(state["momentum_buffer"])
        torch._foreach_mul_(velocities, group["momentum"])
        torch._foreach_add_(velocities, changes)
        torch._foreach_sub_(parameters, velocities)
