"""Optimizer that combines the gradients of all ranks, by default to their average, before it
applies them: ``horovod.torch.DistributedOptimizer``.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch

from aitne_train import context
from aitne_train._adasum_optimizer import AdasumOptimizer
from aitne_train._distributed_optimizer_base import NamedOptimizer
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_request import ReduceOp
from aitne_train.compress import COMPRESSORS
from aitne_train.compression import BF16Compressor, Compression, FP16Compressor, NoneCompressor
from aitne_train.exchange._gradient_collection import Gradients
from aitne_train.exchange._rank_agreement import ExchangeOptions
from aitne_train.exchange._user_compressor import UserCompressor
from aitne_train.process_sets import ProcessSet, global_process_set

_OWN: dict[Any, str] = {NoneCompressor: "none", FP16Compressor: "fp16", BF16Compressor: "bf16"}


class _DistributedOptimizer(NamedOptimizer):
    """Mixin that precedes the user's optimizer class in the method resolution order and adds the
    exchange of gradients.

    It has Horovod's name and arguments for programs that derive from it, as in ``class
    Mine(_DistributedOptimizer, torch.optim.SGD)``. The arguments are those of
    ``DistributedOptimizer``; ``params`` may be the ``param_groups`` of another optimizer.
    """

    # A copy made by copy.deepcopy has none of these: it is an optimizer of its own process only.
    _gradients: Gradients | None = None
    _frozen: list[torch.nn.Parameter] = []  # noqa: RUF012 - replaced by each object
    _count = 0
    _should_synchronize = True
    _synchronized = False

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
        compression: Any,
        backward_passes_per_step: int = 1,
        op: int = ReduceOp.AVERAGE,
        gradient_predivide_factor: float = 1.0,
        groups: Sequence[Sequence[torch.Tensor]] | int | None = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(params)
        self._set_up_exchange(
            _name_parameters(self, named_parameters),
            _build_options(
                compression,
                backward_passes_per_step,
                ReduceOp(op),
                gradient_predivide_factor,
                groups,
                sparse_as_dense,
                process_set,
            ),
        )

    def _set_up_exchange(self, names: dict[int, str], options: ExchangeOptions) -> None:
        self._names = names
        self._should_synchronize, self._synchronized = True, False
        self.backward_passes_per_step = options.passes
        self.op = options.op
        self.gradient_predivide_factor = options.predivide
        self.sparse_as_dense = options.sparse_as_dense
        self.process_set = options.process_set
        several = (
            context.require_context().world.size > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"
        )
        if options.process_set.included() and several:
            self._gradients = Gradients(options, ())
            self._gradients.add_parameters(self._list_unwatched())
            # Parameters outlive their optimizer; its hooks on them must not.
            weakref.finalize(self, self._gradients.close).atexit = False

    def _list_unwatched(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Return names and parameters that require a gradient and are not part of the exchange yet."""
        self._frozen, self._count, unwatched = [], 0, []
        for i, group in enumerate(self.param_groups):
            for j, parameter in enumerate(group["params"]):
                self._count += 1
                name = self._names.get(id(parameter), f"allreduce.noname.{i}.{j}")
                if not parameter.requires_grad:
                    self._frozen.append(parameter)
                elif not cast(Gradients, self._gradients).is_watched(parameter):
                    unwatched.append((name, parameter))
        return unwatched

    @mark_collective("optimizer.synchronize()")
    def synchronize(self) -> None:
        """Wait until the gradients of all ranks are exchanged.

        A program calls this to change gradients before ``step``, such as to clip them, and then
        calls ``step`` within ``skip_synchronize``.

        Raises:
            HorovodInternalError: ranks disagree, or the connection to one is lost.
        """
        gradients = self._gradients
        if gradients is not None:
            late: Sequence[tuple[str, torch.nn.Parameter]] = ()
            if (
                any(parameter.requires_grad for parameter in self._frozen)
                or sum([len(group["params"]) for group in self.param_groups]) != self._count
            ):
                late = self._list_unwatched()
            gradients.synchronize(late)
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Make ``step`` apply the gradients without an exchange inside the ``with`` block; for use
        after ``synchronize``.
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    @mark_collective("optimizer.step()")
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Exchange the gradients and apply them. With a closure, the gradients are exchanged after
        each call of the closure.

        Raises:
            HorovodInternalError: ranks disagree, or the connection to one is lost.
        """
        if closure is not None and self._should_synchronize:
            closure = partial(self._wrap_closure, closure)
        elif self._should_synchronize:
            self._exchange_gradients()
        self._synchronized = False
        loss = super().step() if closure is None else super().step(closure)
        if self._gradients is not None:
            self._gradients.record_step_end()
        return loss

    # Optimizers run the hooks of a program before and after step(); the user's class does already.
    step.hooked = True  # type: ignore[attr-defined]

    def _wrap_closure(self, closure: Callable[[], Any]) -> Any:
        loss = closure()
        self._exchange_gradients()
        self._synchronized = False
        return loss

    def _exchange_gradients(self) -> None:
        if self._synchronized:
            warnings.warn(
                # The beginning is that of Horovod's: programs filter warnings by their beginning.
                "optimizer.step() called without optimizer.skip_synchronize() context after "
                "optimizer.synchronize(): gradients are exchanged once more.",
                stacklevel=3,
            )
        self.synchronize()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients as the user's optimizer does.

        Raises:
            AssertionError: gradients were computed since the last ``step`` or ``synchronize``, and
                may be being sent to other ranks.
        """
        if self._gradients is not None and self._gradients.has_pending:
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() "
                "or optimizer.synchronize(): gradients may be in transfer to other ranks."
            )
        super().zero_grad(set_to_none)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set the number of backward passes whose gradients are accumulated for one step."""
        self.backward_passes_per_step = passes
        if self._gradients is not None:
            self._gradients.set_passes(passes)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Load the state as the user's optimizer does, and discard gradients computed since the
        last step.
        """
        if self._gradients is not None:
            self._gradients.reset()
        self._should_synchronize, self._synchronized = True, False
        super().load_state_dict(*args, **kwargs)

    def exchange_state_dict(self) -> dict[str, Any]:
        """Return this rank's compression errors, which the next step adds to its gradients; they
        belong in this rank's part of a checkpoint.
        """
        return {} if self._gradients is None else self._gradients.state_dict()

    def load_exchange_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``exchange_state_dict`` on this rank."""
        if self._gradients is not None:
            self._gradients.load_state_dict(state)


def DistributedOptimizer(  # noqa: N802 - Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = ReduceOp.AVERAGE,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Sequence[Sequence[torch.Tensor]] | int | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return an optimizer that exchanges gradients between ranks before it applies them.

    Its class is a subclass of the class of ``optimizer``, with which it shares state and parameter
    groups. Gradients are sent while backward runs; a gradient that a rank has not computed in a
    step counts as zeros. The memory of the gradients belongs to the exchange: the next backward
    overwrites it, so a program must clone a gradient that it keeps.

    Args:
        optimizer: optimizer that applies the gradients.
        named_parameters: the result of ``model.named_parameters()``; None for numbers as names.
        compression: a class of ``Compression``, another class with the same two methods, or the
            name of a compressor of ``aitne_train.compress`` such as ``"bf16"``, which uses error
            feedback if the compressor supports it. Default: the setting in the job file, which is
            the environment variable ``AITNE_COMPRESS``.
        backward_passes_per_step: number of backward passes whose gradients are accumulated before
            they are exchanged.
        op: Average, Sum, Adasum, Min, Max or Product. Adasum combines the optimizer's steps instead
            of the gradients.
        gradient_predivide_factor: for Average, gradients are divided by this factor before the sum,
            and the sum by the number of ranks divided by this factor.
        num_groups: deprecated; number of groups, as ``groups``.
        groups: gradients that are exchanged together: lists of parameters, or the number of groups
            into which all gradients are divided.
        sparse_as_dense: whether sparse gradients are exchanged as dense ones.
        process_set: ranks that exchange gradients. On other ranks the optimizer exchanges nothing.

    Raises:
        ValueError: an argument is invalid, ``optimizer`` is a ``DistributedOptimizer``, or a
            parameter is a DTensor.
        TypeError: ``compression`` is not a valid compression.
    """
    if isinstance(optimizer, (_DistributedOptimizer, AdasumOptimizer)):
        raise ValueError(
            "The optimizer is a DistributedOptimizer already: pass the optimizer from which it was created "
            "to DistributedOptimizer."
        )
    reduce_op = ReduceOp(op)
    if gradient_predivide_factor != 1.0 and reduce_op is not ReduceOp.AVERAGE:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        warnings.warn("num_groups is now called groups.", DeprecationWarning, stacklevel=2)
        groups = num_groups if groups is None else groups
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    names = _name_parameters(optimizer, named_parameters)
    adasum = reduce_op is ReduceOp.ADASUM and context.require_context().world.size > 1
    if adasum and process_set is not global_process_set:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    kind: type = AdasumOptimizer if adasum else _DistributedOptimizer
    made: Any = _create_subclass(kind, type(optimizer))
    wrapped = made.__new__(made)
    # An earlier scheduler has set a step() of its own on the optimizer, which would hide this one.
    wrapped.__dict__.update({k: v for k, v in vars(optimizer).items() if k != "step"})
    if "step" in vars(optimizer):
        # It warns of a call before step() by an attribute of the optimizer that it has.
        wrapped.register_step_post_hook(partial(_inform_scheduler, weakref.ref(optimizer)))
    if adasum:
        wrapped._set_up_exchange(names, compression, backward_passes_per_step)
        return wrapped
    wrapped._set_up_exchange(
        names,
        _build_options(
            compression,
            backward_passes_per_step,
            reduce_op,
            gradient_predivide_factor,
            groups,
            sparse_as_dense,
            process_set,
        ),
    )
    return wrapped


def _build_options(
    compression: Any,
    passes: int,
    op: ReduceOp,
    predivide: float,
    groups: Any,
    sparse_as_dense: bool,
    process_set: ProcessSet,
) -> ExchangeOptions:
    if compression is Compression.none and os.environ.get("AITNE_COMPRESS", "none") != "none":
        compression = os.environ["AITNE_COMPRESS"]
    label, compressor, feedback, whole = _select_compressor(compression)
    return ExchangeOptions(
        # One rank's Adasum is its gradient.
        ReduceOp.SUM if op is ReduceOp.ADASUM else op,
        predivide,
        label,
        compressor,
        feedback,
        whole,
        _check_groups(groups),
        sparse_as_dense,
        process_set,
        passes,
        os.environ.get("AITNE_STRATEGY") or "allreduce",
    )


def _inform_scheduler(reference: weakref.ref[Any], *_: Any) -> None:
    optimizer = reference()
    if optimizer is not None:
        optimizer._opt_called = True


def _create_subclass(kind: type, of: type) -> type:
    # By str() of the class, with the module's name, libraries detect that Horovod has wrapped one.
    qualified = {"__module__": __name__, "__qualname__": f"horovod.{of.__name__}"}
    return type(of.__name__, (kind, of), {**qualified, "__doc__": of.__doc__})


def _name_parameters(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> dict[int, str]:
    """Return the name of each parameter, by the ``id`` of the parameter.

    Raises:
        ValueError: a name occurs twice, a parameter has no name, an item is not a pair, or a
            parameter is a DTensor.
    """
    every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    # Without an import of that module there is no DTensor; importing it takes long.
    tensors = sys.modules.get("torch.distributed.tensor")
    if tensors is not None and any(isinstance(parameter, tensors.DTensor) for parameter in every):
        raise ValueError(
            "DistributedOptimizer does not take DTensor parameters, as fully_shard and parallelize_module make "
            "them: their gradients are exchanged by torch.distributed. Use the optimizer as it is."
        )
    if named_parameters is None:
        return {
            id(parameter): f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(optimizer.param_groups)
            for j, parameter in enumerate(group["params"])
        }
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    counted = Counter(name for name, _ in named)
    twice = sorted(name for name, times in counted.items() if times > 1)
    if twice:
        raise ValueError(
            "Parameter names in named_parameters must be unique. Found duplicates: "
            + ", ".join(twice)
        )
    names = {id(parameter): name for name, parameter in named}
    unnamed = [tuple(parameter.shape) for parameter in every if id(parameter) not in names]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named. "
            f"Their shapes: {', '.join(map(str, unnamed))}"
        )
    return names


def _select_compressor(compression: Any) -> tuple[str, Callable[[], Any], bool, bool]:
    """Return four properties of the argument ``compression``: its name, the function that creates a
    compressor, whether error feedback is used, and whether each gradient is compressed separately
    in its original shape.
    """
    if isinstance(compression, str):
        plugin: Any = COMPRESSORS.get(compression)
        return f"{compression} with error feedback", plugin, bool(plugin.error_feedback), False
    plugin_name = _OWN.get(compression) if isinstance(compression, type) else None
    if plugin_name is not None:
        return plugin_name, COMPRESSORS.get(plugin_name), False, False
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise TypeError(f"{compression!r} is not a compression: it has no compress and decompress.")
    label = getattr(compression, "__qualname__", type(compression).__qualname__)
    return label, partial(UserCompressor, compression), False, True


def _check_groups(groups: Any) -> Any:
    if groups is None:
        return None
    if not isinstance(groups, list):
        if not isinstance(groups, int) or groups < 0:
            raise ValueError(
                "groups should be a non-negative integer or a list of list of torch.Tensor."
            )
        return groups
    grouped_ids: set[int] = set()
    for tensor in (tensor for members in groups for tensor in members):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError("groups must consist of torch.Tensor.")
        if id(tensor) in grouped_ids:
            raise ValueError("A parameter can only appear once in groups.")
        grouped_ids.add(id(tensor))
    return groups
