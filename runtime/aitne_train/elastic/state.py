"""State of elastic training: kept in memory, restored, and synchronized between ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from enum import IntFlag
from queue import Empty, SimpleQueue
from typing import Any

import torch

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.context import require_context
from aitne_train.elastic.sampler import ElasticSampler
from aitne_train.errors import HostsUpdatedInterrupt
from aitne_train.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)


class HostUpdateResult(IntFlag):
    """Kind of change in the set of nodes: none, removed nodes, added nodes, or both."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class State:
    """State that a training loop can commit, restore and synchronize; subclasses define its
    content.

    Args:
        bcast_object: function that returns the object of rank 0 on every rank.
        get_rank: function that returns the rank of this process.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: SimpleQueue[tuple[float, int]] = SimpleQueue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []
        self._commits = 0

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Register functions that are called after each reset, when ``size()`` may have changed,
        for example to scale a learning rate.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Reset the state and call the registered callbacks; called after the ranks have connected
        again.
        """
        self._host_messages = SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Record that the set of nodes has changed, so that the next commit raises
        ``HostsUpdatedInterrupt`` on all ranks.

        ``timestamp`` must be greater than in the previous call. ``update_res`` is the kind of
        change, a ``HostUpdateResult``. May be called from any thread.
        """
        self._host_messages.put((timestamp, update_res))

    @mark_collective("state.commit()")
    def commit(self) -> None:
        """Save the current state for ``restore``. Every rank must call this.

        Raises:
            HostsUpdatedInterrupt: on every rank, if rank 0 was notified of a change of the nodes.
        """
        self.save()
        self._commits += 1
        self.check_host_updates()

    @mark_collective("state.check_host_updates()")
    def check_host_updates(self) -> None:
        """Check, without a commit, for a change of the set of nodes. Every rank must call this.

        Raises:
            HostsUpdatedInterrupt: on every rank, if rank 0 was notified of a change.
        """
        before = latest = self._last_updated_timestamp
        changes = HostUpdateResult.no_update
        for timestamp, change in self._collect_updates():
            if timestamp > latest:
                latest = timestamp
                changes |= HostUpdateResult(change)
        # Ranks are notified at different times, but must react in the same step: rank 0 decides.
        before, self._last_updated_timestamp, change = self._bcast_object(
            (before, latest, int(changes))
        )
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(change == HostUpdateResult.removed)

    def save(self) -> None:
        """Save a copy of the current state in memory, for ``restore``."""
        raise NotImplementedError

    def restore(self) -> None:
        """Replace the current state by the copy of the last ``save``."""
        raise NotImplementedError

    def sync(self) -> None:
        """Replace every rank's state and saved copy by rank 0's. Every rank must call this."""
        raise NotImplementedError

    def reset(self) -> None:
        """Adapt the state to the new set of ranks after a reset; called before ``sync``."""

    def _collect_updates(self) -> Iterable[tuple[float, int]]:
        while True:
            try:
                yield self._host_messages.get_nowait()
            except Empty:
                return


class ObjectState(State):
    """State that consists of Python values, each of which is an attribute: ``ObjectState(...,
    epoch=0).epoch``.

    Values are copied with ``copy.deepcopy`` when they are saved and when they are restored.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        self._saved_state = copy.deepcopy(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)

    def save(self) -> None:
        """Save a copy of every value, for ``restore``."""
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        """Replace the values by copies of the saved ones."""
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    @mark_collective("state.sync()")
    def sync(self) -> None:
        """Replace the values by the current values of rank 0, and save them."""
        self.save()
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self.restore()


class TorchState(ObjectState):
    """State of a training loop: its models, optimizers, samplers and other values.

    Args:
        model: a module; more modules may be passed as keyword arguments.
        optimizer: an optimizer, which may be a ``DistributedOptimizer``.
        kwargs: modules, optimizers, ``ElasticSampler`` objects and other values; each becomes an
            attribute of this name.
    """

    _handlers: dict[str, StateHandler]

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        handlers: dict[str, StateHandler] = {}
        values: dict[str, Any] = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = _find_handler(value)
            if handler is None:
                values[name] = value
            else:
                handlers[name] = handler
        # __setattr__ reads the handlers.
        object.__setattr__(self, "_handlers", handlers)
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(
            bcast_object=broadcast_object, get_rank=lambda: require_context().world.rank, **values
        )

    def save(self) -> None:
        """Save copies of all models, optimizers, samplers and values."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Restore the saved copies of all models, optimizers, samplers and values."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    @mark_collective("state.sync()")
    def sync(self) -> None:
        """Replace all models, optimizers, samplers and values by rank 0's. Every rank must call
        this.
        """
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """Handler that saves, restores and synchronizes values of one type."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Save a copy of the value."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the saved copy of the value."""
        raise NotImplementedError

    def sync(self) -> None:
        """Replace the value by rank 0's value. Every rank must call this."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Replace the value and save it."""
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """Handler of objects with the methods ``state_dict`` and ``load_state_dict``."""

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # Optimizers keep the loaded tensors and would modify the saved copy.
        self.value.load_state_dict(copy.deepcopy(self._saved))


class ModelStateHandler(_StateDictHandler):
    """Handler that saves, restores and synchronizes a module."""

    def sync(self) -> None:
        """Broadcast parameters and buffers from rank 0."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(_StateDictHandler):
    """Handler that saves, restores and synchronizes an optimizer."""

    def sync(self) -> None:
        """Broadcast options and state of the optimizer from rank 0."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(_StateDictHandler):
    """Handler with which ``TorchState`` saves, restores and synchronizes an ``ElasticSampler``."""

    def sync(self) -> None:
        """Broadcast from rank 0 which samples of the epoch were processed, and distribute the
        remaining samples to all ranks. Every rank must call this.
        """
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """Return pairs of a type and the handler class that ``TorchState`` uses for its instances; the
    first pair that matches a value applies.
    """
    return _registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Replace the pairs of types and handler classes that ``TorchState`` uses; see
    ``get_handler_registry``.
    """
    _registry[:] = registry


def _find_handler(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None
