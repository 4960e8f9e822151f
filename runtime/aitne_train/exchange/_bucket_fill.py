"""Buckets into which the gradients of a step are copied, with the place of each gradient."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from aitne_train.exchange.base import Bucket

_SMALL = 16_384
"""Maximum number of elements of a gradient that is copied together with others in one call, and
scaled afterwards. A larger gradient is copied and scaled alone as soon as it is computed, while it
is in the CPU's cache."""


class BucketFill:
    """A bucket that is filled with the gradients of a step as they are computed.

    Each gradient then becomes a part of the bucket's memory, so that nothing is copied back after
    the exchange. The parts are separate tensors on that memory, not views, so that autograd permits
    the same operations on them as on any gradient.
    """

    def __init__(
        self,
        index: int,
        names: Sequence[str],
        parameters: Sequence[torch.nn.Parameter],
        *,
        own_shape: bool = False,
    ) -> None:
        first = parameters[0]
        sizes = [parameter.numel() for parameter in parameters]
        offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        shape = tuple(first.shape) if own_shape else ()
        self.bucket = Bucket(index, flat, list(parameters), list(names), offsets, shape)
        self.places = [
            torch.empty(0, dtype=first.dtype, device=first.device).set_(
                flat.untyped_storage(), offset, parameter.shape, choose_strides(parameter)
            )
            for parameter, offset in zip(parameters, offsets, strict=True)
        ]
        self.left = len(parameters)
        """Number of gradients of this step that have not been computed yet."""
        self._taken: set[int] = set()
        self._pairs = list(zip(parameters, self.places, sizes, strict=True))

    def is_copied_alone(self, position: int) -> bool:
        """Return whether the gradient at ``position`` is large enough to be copied alone, by
        ``copy_gradient``.
        """
        return self._pairs[position][2] > _SMALL

    def copy_gradient(self, position: int, scale: float) -> None:
        """Copy one gradient, multiplied by ``scale``, into the bucket; called as soon as it is
        computed. ``copy_remaining`` copies the other gradients later.
        """
        parameter, place, _ = self._pairs[position]
        grad = parameter.grad
        if grad is None or grad.is_sparse or grad.requires_grad:
            return
        self._taken.add(position)
        if grad is place:
            if scale != 1.0:
                place.mul_(scale)
            return
        if scale == 1.0:
            place.copy_(grad)
        else:
            torch.mul(grad, scale, out=place)
        parameter.grad = place

    def copy_remaining(self, scale: float) -> None:
        """Copy the gradients of this step that ``copy_gradient`` has not copied into the bucket, multiplied
        by ``scale``; write zeros for missing gradients.

        Raises:
            AssertionError: a gradient has an autograd graph of its own (``create_graph=True``).
        """
        small_from, small_to, in_place = [], [], []
        alone = False
        for position, (parameter, place, size) in enumerate(self._pairs):
            grad = parameter.grad
            if size > _SMALL and grad is not None:
                alone = True
                if position not in self._taken or grad is not place:
                    self._check_gradient(grad)
                    if grad.is_sparse:
                        parameter.grad = grad.to_dense()
                    self.copy_gradient(position, scale)
            elif grad is place:
                in_place.append(place)
            elif grad is None:
                place.zero_()
                if parameter.requires_grad:
                    parameter.grad = place
            else:
                self._check_gradient(grad)
                small_from.append(grad.to_dense() if grad.is_sparse else grad)
                small_to.append(place)
                parameter.grad = place
        if small_to:
            torch._foreach_copy_(small_to, small_from)
        if scale == 1.0:
            return
        if not alone:
            self.bucket.flat.mul_(scale)
        elif small_to or in_place:
            torch._foreach_mul_(small_to + in_place, scale)

    @staticmethod
    def _check_gradient(grad: torch.Tensor) -> None:
        if grad.requires_grad:
            raise AssertionError(
                "A gradient that is to be exchanged requires a gradient itself: call "
                "backward() without create_graph=True."
            )

    def reset(self) -> None:
        """Prepare the bucket for the gradients of the next step."""
        self.left = len(self._pairs)
        self._taken.clear()


def choose_strides(parameter: torch.nn.Parameter) -> tuple[int, ...]:
    """Return the strides that a parameter's gradient has in its bucket: those of the parameter if
    its elements are dense, in any order (such as ``channels_last``); otherwise those of a
    contiguous tensor.
    """
    expected = 1
    for size, stride in sorted(
        zip(parameter.shape, parameter.stride(), strict=True), key=lambda pair: (pair[1], pair[0])
    ):
        if size != 1 and stride != expected:
            return torch.empty(parameter.shape, device="meta").stride()
        expected *= size
    strides: tuple[int, ...] = parameter.stride()
    return strides
