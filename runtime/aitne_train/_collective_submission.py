"""Submission of collectives to this rank's engine, and conversion of their outputs to what the
caller gets.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import Kind, ReduceOp, Request
from aitne_train.context import Context, require_context
from aitne_train.errors import HorovodInternalError
from aitne_train.process_sets import ProcessSet

Finish = Callable[[Any], Any]

_finishes: dict[int, tuple[Context, Finish]] = {}
"""By handle: the context in which the collective was submitted, and the function that converts its
outputs to the caller's result."""


def select_reduction(op: int | None, average: bool | None) -> ReduceOp:
    """Return the reduction selected by ``op`` or by its deprecated form ``average``; the average if
    both are None.

    Raises:
        ValueError: both are given.
        HorovodInternalError: ``op`` is not the number of an operation.
    """
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    if average is not None:
        warnings.warn(
            "average= is deprecated since Horovod 0.19: use op=hvd.Average or op=hvd.Sum.",
            DeprecationWarning,
            stacklevel=4,
        )
        return ReduceOp.AVERAGE if average else ReduceOp.SUM
    try:
        return ReduceOp.AVERAGE if op is None else ReduceOp(op)
    except ValueError:
        raise HorovodInternalError(f"There is no reduction {op!r}.") from None


def make_dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor contiguous and without its autograd history; it is copied only if it is not
    contiguous.

    Raises:
        TypeError: ``tensor`` is not a tensor.
        ValueError: ``tensor`` is sparse.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"A tensor is needed, not {type(tensor).__name__}.")
    if tensor.layout is not torch.strided:
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    # A tensor may be a lazy conjugate or negative of another one, but transports move bytes.
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def check_reducible(tensor: torch.Tensor, op: ReduceOp) -> torch.Tensor:
    """Return the tensor contiguous and without autograd history (see ``make_dense``), after checking
    that ``op`` can reduce its elements.

    Raises:
        ValueError: elements of this type cannot be reduced.
    """
    rows = make_dense(tensor)
    dtype = rows.dtype
    if dtype is torch.bool or dtype.is_complex or (dtype.is_floating_point and dtype.itemsize < 2):
        raise ValueError(f"Tensor type {tensor.type()} is not supported.")
    if op is ReduceOp.ADASUM and not dtype.is_floating_point:
        raise ValueError(f"Adasum is for floats, not for {dtype}.")
    return rows


def require_initialized() -> Context:
    """Return the context of this process.

    Raises ``HorovodInternalError``, as Horovod's collectives do, if ``init`` was not called.
    """
    try:
        return require_context()
    except ValueError as error:
        raise HorovodInternalError(str(error)) from None


class PreparedCollective:
    """A collective with validated arguments that has not been submitted to the engine yet."""

    def __init__(
        self,
        kind: Kind,
        tensors: Sequence[torch.Tensor],
        process_set: ProcessSet,
        finish: Finish,
        *,
        name: str | None = None,
        outputs: Sequence[torch.Tensor] | None = None,
        op: ReduceOp = ReduceOp.SUM,
        root: int = 0,
        splits: Sequence[int] | None = None,
        scales: tuple[float, float] = (1.0, 1.0),
        device: str = "",
    ) -> None:
        """Create the request for the engine; ``finish`` is the function that converts its outputs
        to the caller's result.

        Raises:
            HorovodInternalError: ``init`` was not called.
            ValueError: the process set does not exist or was removed.
        """
        self._context = require_initialized()
        if process_set.process_set_id is None:
            raise ValueError("Process set does not exist or has not been registered.")
        self._finish = finish
        self._request = Request(
            kind,
            name,
            tensors,
            outputs=outputs,
            op=op,
            root=root,
            splits=splits,
            prescale=float(scales[0]),
            postscale=float(scales[1]),
            set_id=process_set.process_set_id,
            device=device,
        )

    def submit(self) -> int:
        """Submit the collective; return the handle for ``poll`` and ``synchronize``.

        Raises:
            HorovodInternalError: the runtime has failed or was shut down.
            ValueError: a collective of the same name is in progress, or this rank is not in the
                process set.
        """
        handle: int = self._context.engine.submit(self._request)
        _finishes[handle] = (self._context, self._finish)
        return handle

    def run(self) -> Any:
        """Submit the collective, wait for it and return its result; this costs less than ``submit``
        and ``synchronize``.

        Raises:
            HorovodInternalError: the collective failed, or the runtime has failed or was shut down.
            ValueError: a collective of the same name is in progress, or this rank is not in the
                process set.
        """
        engine = self._context.engine
        run: Callable[[Request], Any] = (
            engine.join if self._request.kind == Kind.JOIN else engine.run
        )
        return self._finish(run(self._request))


def copy_in_place(targets: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
    """Copy the outputs of an in-place collective into the target tensors that are not contiguous;
    the collective used contiguous copies of these.
    """
    for target, output in zip(targets, outputs, strict=True):
        if not target.is_contiguous() or target.is_conj() or target.is_neg():
            target.detach().copy_(output)


def poll(handle: int) -> bool:
    """Return whether the collective is done, so that ``synchronize(handle)`` would return
    immediately.

    Raises:
        ValueError: there is no such handle, or ``synchronize`` was already called with it.
    """
    if handle not in _finishes:
        raise ValueError(f"Handle {handle} was not created or has been cleared.")
    context, _ = _finishes[handle]
    return bool(context.engine.poll(handle))


@mark_collective("synchronize")
def synchronize(handle: Any) -> Any:
    """Wait for an asynchronous collective and return its output.

    Returns:
        A tensor; for a group, a tuple of tensors; for alltoall, the received tensor and the number
            of rows received from each rank. None if ``synchronize`` was already called with this
            handle.

    Raises:
        HorovodInternalError: the collective failed, on this rank or on another.
    """
    if callable(handle):
        return handle()
    entry = _finishes.pop(handle, None)
    if entry is None:
        return None
    context, finish = entry
    return finish(context.engine.wait(handle))


def discard_handles() -> None:
    """Discard all handles of asynchronous collectives; a new ``init`` makes them invalid."""
    _finishes.clear()
