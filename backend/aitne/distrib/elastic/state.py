"""What elastic training keeps in memory, goes back to, and makes equal on all ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from enum import IntFlag
from queue import Empty, SimpleQueue
from typing import Any

import torch

from aitne.distrib.context import current
from aitne.distrib.elastic.sampler import ElasticSampler
from aitne.distrib.errors import HostsUpdatedInterrupt
from aitne.distrib.functions import (
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)


class HostUpdateResult(IntFlag):
    """How the set of nodes has changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = 3


class State:
    """What a training loop can commit, restore and synchronize. Subclasses say of what.

    Args:
        bcast_object: Gives every rank what rank 0 gave it.
        get_rank: This process's rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: SimpleQueue[tuple[float, int]] = SimpleQueue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], None]] = []
        self._commits = 0

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Call these after each reset, when ``size()`` may have changed: to scale a learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Ranks have found each other anew."""
        self._host_messages = SimpleQueue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """The set of nodes has changed. From any thread; the next commit of all ranks acts on it."""
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Keep what is there now as what ``restore`` goes back to. Collective.

        Raises:
            HostsUpdatedInterrupt: on every rank, if rank 0 has heard that the set of nodes changed.
        """
        self.save()
        self._commits += 1
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Ask without committing whether the set of nodes has changed. Collective.

        Raises:
            HostsUpdatedInterrupt: on every rank, if rank 0 has heard that it has.
        """
        before = latest = self._last_updated_timestamp
        changes = HostUpdateResult.no_update
        for timestamp, change in self._messages():
            if timestamp > latest:
                latest = timestamp
                changes |= HostUpdateResult(change)
        # Ranks hear at different times, but must all turn back in the same step: rank 0 says.
        before, self._last_updated_timestamp, change = self._bcast_object(
            (before, latest, int(changes))
        )
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(change == HostUpdateResult.removed)

    def save(self) -> None:
        """Copy what is there now."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make every rank's state that of rank 0, and its copy too. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called after a reset, before ``sync``."""

    def _messages(self) -> Iterable[tuple[float, int]]:
        while True:
            try:
                yield self._host_messages.get_nowait()
            except Empty:
                return


class ObjectState(State):
    """Python values, each an attribute of the state: ``ObjectState(..., epoch=0).epoch``.

    Values are copied (``copy.deepcopy``) when they are committed and when they are restored.
    """

    def __init__(
        self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any
    ) -> None:
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        self._saved_state = copy.deepcopy(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)

    def save(self) -> None:
        """Copy every value."""
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        """Go back to the values that were copied."""
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        """Take rank 0's values, as they are now, and keep them as committed."""
        self.save()
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self.restore()


class TorchState(ObjectState):
    """A training loop's models, optimizers, samplers and values.

    Args:
        model: A module; further ones may be given by any keyword.
        optimizer: An optimizer, also one that ``DistributedOptimizer`` gave.
        kwargs: Modules, optimizers, ``ElasticSampler``s and values; each becomes an attribute.
    """

    _handlers: dict[str, StateHandler]

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        handlers: dict[str, StateHandler] = {}
        values: dict[str, Any] = {}
        for name, value in {**kwargs, "model": model, "optimizer": optimizer}.items():
            handler = _handler_of(value)
            if handler is None:
                values[name] = value
            else:
                handlers[name] = handler
        # __setattr__ asks for the handlers.
        object.__setattr__(self, "_handlers", handlers)
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(
            bcast_object=broadcast_object, get_rank=lambda: current().world.rank, **values
        )

    def save(self) -> None:
        """Copy all of it."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Go back to what was copied."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Make all of it rank 0's. Collective."""
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)


class StateHandler:
    """How values of one type are copied, restored and made equal."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Copy the value."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the copy."""
        raise NotImplementedError

    def sync(self) -> None:
        """Make it rank 0's. Collective."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Another value is in its place."""
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """For what has ``state_dict`` and ``load_state_dict``."""

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # Optimizers keep what they are given, and would train the copy away.
        self.value.load_state_dict(copy.deepcopy(self._saved))


class ModelStateHandler(_StateDictHandler):
    """Modules."""

    def sync(self) -> None:
        """Broadcast parameters and buffers."""
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(_StateDictHandler):
    """Optimizers."""

    def sync(self) -> None:
        """Broadcast options and state."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(_StateDictHandler):
    """Samplers: what rank 0 has done of the epoch is what all have."""

    def sync(self) -> None:
        """Broadcast, and deal out anew."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict()))
        self.save()


_registry: list[tuple[type, type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, type[StateHandler]]]:
    """Which handler ``TorchState`` takes for which type; the first that fits."""
    return _registry


def set_handler_registry(registry: list[tuple[type, type[StateHandler]]]) -> None:
    """Take these from now on."""
    _registry[:] = registry


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None
