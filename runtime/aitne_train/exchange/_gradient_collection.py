"""Collection of the gradients of one optimizer's parameters into buckets, which a strategy
exchanges.

In the first ``synchronize`` the ranks agree that their parameters are equal, in which order
backward produces gradients (rank 0's order), and which gradients are sparse. From then on nothing
is negotiated: buckets are the same on every rank, and are exchanged in that order while backward
still runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from aitne_train import abandoned_collectives, collectives, context
from aitne_train.bucket_size_autotune import Autotune
from aitne_train.collective_request import ReduceOp
from aitne_train.errors import HorovodInternalError
from aitne_train.exchange import STRATEGIES
from aitne_train.exchange._bucket_fill import BucketFill
from aitne_train.exchange._bucket_plan import (
    DEFAULT_BYTES,
    EDGE_BYTES,
    PlannedGradient,
    plan_buckets,
)
from aitne_train.exchange._cpus_per_rank import count_processors_per_rank
from aitne_train.exchange._negotiated_exchange import exchange_by_negotiation
from aitne_train.exchange._rank_agreement import ExchangeOptions, build_signature, compare_observed
from aitne_train.exchange.base import ExchangeStrategy, StrategySettings
from aitne_train.exchange_channel import JoinedError
from aitne_train.transport.base import Reduction, TransportError

Named = Sequence[tuple[str, torch.nn.Parameter]]

_PROCESSORS_TO_OVERLAP = 2

_channels: WeakKeyDictionary[context.Context, dict[int, int]] = WeakKeyDictionary()
"""Number of channels opened so far for each process set, by context. It is equal on every rank,
because all ranks run the same program."""


class Gradients:
    """Exchange of the gradients of one optimizer's parameters, started by hooks that run during
    backward. It holds no reference to the optimizer.
    """

    def __init__(self, options: ExchangeOptions, named: Named) -> None:
        self._options = options
        self._names: list[str] = []
        self._parameters: list[torch.nn.Parameter] = []
        self._ids: set[int] = set()
        self._fresh: list[int] = []
        # Backward passes that each gradient still waits for, and the action on its arrival.
        self._delays: list[int] = []
        self._arrived: list[Callable[[], None] | None] = []
        self._hooks: list[Any] = []
        self._order: list[int] = []
        self._context: context.Context | None = None
        self._channel: Any = None
        self._strategy: ExchangeStrategy | None = None
        self._lanes: list[BucketFill] = []
        self._sparse: list[tuple[int, int]] = []
        # Sparse gradients in buckets: their numbers, places and numbers of sparse dimensions.
        self._made_dense: list[tuple[int, torch.Tensor, int]] = []
        self._dims: dict[int, int] = {}
        self._next = 0
        self._step = 0
        self._begun = False
        self._overlap = True
        self._agreed: list[int] = []
        self._tuner: Autotune | None = None
        self._since = 0.0
        self._saved: dict[str, Any] | None = None
        self._counted_in = context.find_context()
        self.add_parameters(named)

    def add_parameters(self, named: Named) -> None:
        """Add parameters (pairs of name and parameter) to the exchange. The ranks must then agree
        again on the order of the gradients.
        """
        self._discard_agreement()
        for name, parameter in named:
            number = len(self._names)
            self._names.append(name)
            self._parameters.append(parameter)
            self._ids.add(id(parameter))
            self._fresh.append(self._options.passes)
            self._delays.append(self._options.passes)
            self._arrived.append(partial(self._order.append, number))
            hook = _make_hook(number, name, self._delays, self._arrived, self._reset_if_over)
            self._hooks.append(parameter.register_post_accumulate_grad_hook(hook))

    @property
    def has_pending(self) -> bool:
        """Return whether backward has computed gradients since the last ``synchronize``."""
        self._reset_if_over()
        return self._delays != self._fresh

    def is_watched(self, parameter: torch.nn.Parameter) -> bool:
        """Return whether this object exchanges the gradient of the parameter."""
        return id(parameter) in self._ids

    def record_step_end(self) -> None:
        """Record the end of a training step in the profile; called when the optimizer has applied
        the gradients.
        """
        if self._context is not None:
            self._context.recorder.step()

    def set_passes(self, passes: int) -> None:
        """Set the number of backward passes whose gradients are accumulated for one step."""
        self._options.passes = passes
        self._fresh[:] = [passes] * len(self._fresh)
        self._delays[:] = self._fresh

    def reset(self) -> None:
        """Discard the gradients computed since the last step."""
        if self._next:
            self._discard_agreement()  # some are in progress, with unknown results on other ranks
        self._prepare_next_step()

    def _reset_if_over(self) -> bool:
        """Discard gradients that were computed before a ``shutdown``; return whether there was one
        since.
        """
        over = self._counted_in is not context.find_context()
        if over:
            self.reset()
        return over

    @abandoned_collectives.mark_collective("optimizer.synchronize()")
    def synchronize(self, late: Named = ()) -> None:
        """Exchange the gradients that were not exchanged during backward, and wait for all; the
        optimizer can then apply them.

        Args:
            late: parameters that were not part of the exchange before, such as those that were
                frozen.

        Raises:
            HorovodInternalError: ranks disagree, or the connection to one is lost.
        """
        try:
            current = context.require_context()
            if self._context is not None and self._context is not current:
                self._discard_agreement()
            if late and self._strategy is None:
                self.add_parameters(late)
                late = ()
            if self._strategy is None:
                self._agree_with_ranks(current)
            if self._strategy is not None:
                self._finish_step(self._strategy)
                self._tune_buckets(time.perf_counter() - self._since)
                self._since = time.perf_counter()
        except TransportError as error:
            failure: HorovodInternalError = self._channel.make_failure(error)
            self._discard_agreement()
            raise failure from error
        except BaseException:
            self._discard_agreement()
            raise
        finally:
            self._prepare_next_step()
        if late:
            alone = Gradients(self._options, late)
            alone.synchronize()
            alone.close()
            self.add_parameters(late)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the exchange on this rank that a resumed run needs, such as
        compression errors.
        """
        return self._saved or ({} if self._strategy is None else self._strategy.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self._saved = dict(state) or None
        if self._strategy is not None and self._saved is not None:
            self._strategy.load_state_dict(self._saved)
            self._saved = None

    def close(self) -> None:
        """Remove the hooks from the parameters and close the channel."""
        for hook in self._hooks:
            hook.remove()
        self._discard_agreement()

    def _discard_agreement(self) -> None:
        """Discard what the ranks have agreed on, and the channel; the next ``synchronize`` agrees
        again.
        """
        if self._strategy is not None:
            self._saved = self._strategy.state_dict()
            self._strategy.close()
        if self._channel is not None:
            self._channel.close()
        self._strategy = self._channel = self._context = None
        self._lanes, self._sparse, self._made_dense = [], [], []
        self._next, self._begun = 0, False
        self._order.clear()
        self._arrived[:] = [
            partial(self._order.append, number) for number in range(len(self._names))
        ]

    def _prepare_next_step(self) -> None:
        self._delays[:] = self._fresh
        self._counted_in = context.find_context()
        for lane in self._lanes:
            lane.reset()
        self._next = 0
        self._begun = False
        if self._strategy is None:
            self._order.clear()

    # During backward.

    def _take_gradient(self, lane: BucketFill, position: int, early: bool) -> None:
        lane.copy_gradient(position, cast(ExchangeStrategy, self._strategy).fill_scale)
        if early:
            self._count_arrival(lane)

    def _count_arrival(self, lane: BucketFill) -> None:
        lane.left -= 1
        if lane.left:
            return
        lanes = self._lanes
        while self._next < len(lanes) and not lanes[self._next].left:
            if not self._begun and self._context is not context.require_context():
                self._discard_agreement()
                return
            self._send_bucket(lanes[self._next])

    def _send_bucket(self, lane: BucketFill) -> None:
        strategy = cast(ExchangeStrategy, self._strategy)
        if not self._begun:
            self._begin_step()
        self._next += 1
        lane.copy_remaining(strategy.fill_scale)
        strategy.on_bucket(lane.bucket)

    def _begin_step(self) -> None:
        self._begun = True
        backward_ended = abandoned_collectives.mark_backward("backward()")
        if backward_ended is not None:
            torch.autograd.Variable._execution_engine.queue_callback(backward_ended)
        self._step += 1
        self._channel.begin_step(self._step)

    # During synchronize.

    def _finish_step(self, strategy: ExchangeStrategy) -> None:
        if not self._begun:
            self._begin_step()
        waits = [(number, self._send_sparse(number, dim)) for number, dim in self._sparse]
        for lane in self._lanes[self._next :]:
            self._send_bucket(lane)
        with self._channel.limit:
            strategy.on_step()
        if self._parameters[0].is_cuda:
            # An aborted exchange also ends on the GPU, with any values.
            self._channel.check()
        for number, wait in waits:
            self._parameters[number].grad = wait()
        for number, place, dim in self._made_dense:
            self._parameters[number].grad = place.to_sparse(dim)

    def _send_sparse(self, number: int, dim: int) -> Callable[[], torch.Tensor]:
        parameter, options = self._parameters[number], self._options
        grad = parameter.grad
        if grad is None:
            grad = torch.sparse_coo_tensor(
                torch.empty((dim, 0), dtype=torch.int64, device=parameter.device),
                torch.empty(
                    (0, *parameter.shape[dim:]), dtype=parameter.dtype, device=parameter.device
                ),
                parameter.shape,
                check_invariants=False,
            )
        elif not grad.is_sparse:
            grad = grad.to_sparse(dim)
        return collectives.sparse_allreduce_async(
            grad, self._names[number], options.op, options.process_set
        )

    def _take_part_with_zeros(self, step: int) -> None:
        """Take part with zeros in the exchange step ``step`` of other ranks, while this rank waits
        in ``join()``.
        """
        strategy = cast(ExchangeStrategy, self._strategy)
        self._step = step
        for lane in self._lanes:
            lane.bucket.flat.zero_()
            strategy.on_bucket(lane.bucket)
        strategy.on_step()
        self._tune_buckets(float("inf"))

    def _tune_buckets(self, seconds: float) -> None:
        tuner = self._tuner
        if tuner is None or not tuner.record_step(seconds):
            if tuner is None or not tuner.tried_all:
                return
            self._tuner = None
            transport = self._channel.transport
            local = torch.tensor(tuner.best, dtype=torch.float64, device=self._parameters[0].device)
            every = local.new_empty(len(local) * transport.size)
            transport.allgather(every, local, [len(local)] * transport.size)
            self._create_buckets(tuner.choose_cap(every.view(transport.size, -1).tolist()))
            return
        self._create_buckets(tuner.cap)

    # Agreement of the ranks.

    def _agree_with_ranks(self, current: context.Context) -> None:
        options = self._options
        set_id = options.process_set.process_set_id or 0
        size = options.process_set.size() or 1
        self._context = current
        if size == 1 or not self._parameters:
            return
        places = {str(parameter.device) for parameter in self._parameters}
        if len(places) > 1:
            raise ValueError(
                f"Parameters of one optimizer are on {' and '.join(sorted(places))}: make one "
                "DistributedOptimizer for each device."
            )
        cap = int(os.environ.get("HOROVOD_FUSION_THRESHOLD") or DEFAULT_BYTES)
        numbers = _channels.setdefault(current, {})
        number = numbers.get(set_id, 0)
        name = f"optimizer.{set_id}.{number}"
        local_signature = build_signature(options, self._names, self._parameters, cap)
        try:
            self._channel = current.open_channel(name, local_signature, set_id, places.pop())
        except JoinedError:  # the next step tries again
            exchange_by_negotiation(options, name, self._names, self._parameters)
            return
        numbers[set_id] = number + 1
        transport = self._channel.transport
        order, dims = compare_observed(transport, self._names, self._parameters, self._order)
        self._dims = dims
        self._sparse = [] if options.sparse_as_dense else list(dims.items())
        self._agreed = [number for number in order if number not in dims or options.sparse_as_dense]
        self._overlap = self._parameters[0].is_cuda or (
            count_processors_per_rank(
                transport, [current.nodes[rank] for rank in current.sets[set_id]]
            )
            >= _PROCESSORS_TO_OVERLAP
        )
        average = options.op is ReduceOp.AVERAGE
        prescale, postscale = options.compute_scales(size)
        self._strategy = STRATEGIES.get(options.strategy)(
            StrategySettings(
                transport=transport,
                recorder=current.recorder,
                compressor=options.compressor,
                failure=self._channel.make_failure,
                error_feedback=options.error_feedback,
                op=Reduction.SUM if average else Reduction(options.op),
                prescale=prescale,
                postscale=postscale,
                overlap=self._overlap,
            )
        )
        if self._saved is not None:
            self._strategy.load_state_dict(self._saved)
            self._saved = None
        self._tuner = Autotune.from_environment(os.environ, current.world.rank)
        self._create_buckets(cap if self._tuner is None else self._tuner.cap)
        self._step = 0
        self._channel.on_joined(self._take_part_with_zeros)

    def _create_buckets(self, cap: int) -> None:
        """Create the buckets, of at most ``cap`` bytes each."""
        options, strategy = self._options, cast(ExchangeStrategy, self._strategy)
        items = [
            PlannedGradient(parameter.numel() * parameter.element_size(), _describe_kind(parameter))
            for parameter in self._parameters
        ]
        groups: Any = options.groups
        if isinstance(groups, list):
            numbers = {id(parameter): number for number, parameter in enumerate(self._parameters)}
            groups = [
                [numbers[id(parameter)] for parameter in some if id(parameter) in numbers]
                for some in groups
            ]
        buckets = (
            [[number] for number in self._agreed]
            if options.whole
            else plan_buckets(
                items, self._agreed, cap, groups, EDGE_BYTES if self._overlap else cap
            )
        )
        self._lanes = [
            BucketFill(
                index,
                [self._names[number] for number in members],
                [self._parameters[number] for number in members],
                own_shape=options.whole,
            )
            for index, members in enumerate(buckets)
        ]
        strategy.setup([lane.bucket for lane in self._lanes])
        self._made_dense = [
            (number, place, self._dims[number])
            for lane, members in zip(self._lanes, buckets, strict=True)
            for number, place in zip(members, lane.places, strict=True)
            if number in self._dims
        ]
        # The last bucket is sent by synchronize(); on a GPU, where sending only queues, every
        # bucket is when it is complete.
        self._arrived[:] = [None] * len(self._arrived)
        on_gpu = self._parameters[0].is_cuda
        for lane, members in zip(self._lanes, buckets, strict=True):
            early = on_gpu or lane is not self._lanes[-1]
            for position, number in enumerate(members):
                if lane.is_copied_alone(position) and not on_gpu:
                    self._arrived[number] = partial(self._take_gradient, lane, position, early)
                else:
                    self._arrived[number] = partial(self._count_arrival, lane) if early else None


def _make_hook(
    number: int,
    name: str,
    delays: list[int],
    arrived: list[Callable[[], None] | None],
    reset_if_over: Callable[[], bool],
) -> Callable[[torch.nn.Parameter], None]:
    def hook(_: torch.nn.Parameter) -> None:
        remaining = delays[number] = delays[number] - 1
        if remaining < 0 and reset_if_over():
            remaining = delays[number] = delays[number] - 1
        if remaining:
            if remaining < 0:
                raise AssertionError(
                    f"The gradient of {name} was computed more than backward_passes_per_step times "
                    "before step() or synchronize(): increase backward_passes_per_step to "
                    "accumulate gradients locally."
                )
            return
        then = arrived[number]
        if then is not None:
            try:
                then()
            except BaseException as error:
                abandoned_collectives.break_if_left("backward()", error)
                raise

    return hook


def _describe_kind(parameter: torch.nn.Parameter) -> Hashable:
    return parameter.dtype, parameter.device
