"""Connections of a rank to the other ranks by ``aitne_train`` and ``torch.distributed``: their
state, their end when a rank waits in vain, and a new connection after that.

Neither package is imported for this: a cell that uses them has imported them.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

OK, FAILED = "ok", "failed"
"""States of ``aitne_train``."""
CONNECT, CLOSE = "connect", "close"
"""Requests for a package: connect the ranks again, or only end their connection."""


class RankConnections:
    """Connections of this rank to the others."""

    def __init__(self) -> None:
        self._released = False

    def describe_state(self) -> dict[str, Any]:
        """Return the state of both packages.

        ``aitne``: ``OK``, ``FAILED``, or None before ``init``. ``torch``: the number of collectives
        of each process group, which is equal on all ranks that are in step; None without groups.
        ``released``: whether the groups of ``torch`` were aborted by ``release``. ``ranks``: number
        of ranks in the default group.
        """
        dist = _find_torch_distributed()
        if dist is None:
            return {"aitne": _describe_aitne_state(), "torch": None, "released": False, "ranks": 0}
        counts = []
        for group in _list_groups(dist):
            with contextlib.suppress(RuntimeError):
                counts.append(group._get_sequence_number_for_group())
        size = dist.get_world_size()
        return {
            "aitne": _describe_aitne_state(),
            "torch": counts,
            "released": self._released,
            "ranks": size,
        }

    def release(self, reason: str) -> None:
        """Let collectives fail in which other ranks wait for this one, or this one for others. May
        be called on any thread. ``reason`` is the message of ``aitne_train``.
        """
        here = _find_aitne_context()
        if here is not None:
            here.engine.fail_all(reason)
        dist = _find_torch_distributed()
        if dist is not None:
            self._released = True
            for group in _list_groups(dist):
                _abort_group(dist, group)

    def connect(self, wanted: Mapping[str, Any]) -> None:
        """Connect again; all ranks must do so at the same time.

        Args:
            wanted: for ``aitne`` and ``torch``, ``CONNECT``, ``CLOSE`` or None (it is in order),
                and as ``key`` a text that was not used before, equal on all ranks.

        Raises:
            Exception: that of the package, if the ranks cannot connect.
        """
        if wanted["aitne"]:
            package = sys.modules["aitne_train"]
            package.shutdown()
            if wanted["aitne"] == CONNECT:
                package.init()
        dist = _find_torch_distributed()
        if dist is not None and wanted["torch"]:
            self._connect_torch(dist, wanted["torch"] == CONNECT, wanted["key"])

    def _connect_torch(self, dist: Any, again: bool, key: str) -> None:
        module = dist.distributed_c10d
        group = dist.group.WORLD
        store, rank, size = module._get_default_store(), dist.get_rank(), dist.get_world_size()
        backend = module._world.pg_backend_config[group]
        timeout = next((each.options._timeout for _, each in _list_backends(group)), None)
        del group
        dist.destroy_process_group()
        self._released = False
        if again:
            # The store of the first start stays: its port might be taken otherwise.
            prefixed = dist.PrefixStore(key, store)
            dist.init_process_group(
                str(backend), store=prefixed, rank=rank, world_size=size, timeout=timeout
            )


def clear_distributed_frames(error: BaseException | None) -> None:
    """Clear the local variables of ``torch.distributed`` in the tracebacks of an exception.

    IPython keeps the last exception, whose frames keep the process group of the call that failed,
    and the group keeps the store. If its server outlives ``destroy_process_group`` on rank 0, the
    next ``init_process_group`` finds the addresses of the first one there, and hangs.
    """
    seen: set[int] = set()
    errors = [error]
    while errors:
        error = errors.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        errors += [error.__cause__, error.__context__]
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith("torch.distributed"):
                with contextlib.suppress(RuntimeError):  # the frame is still executing
                    frame.clear()
                    _ = frame.f_locals  # empties the copy that IPython's traceback has made


def _find_aitne_context() -> Any:
    module = sys.modules.get("aitne_train.context")
    return None if module is None else module.find_context()


def _describe_aitne_state() -> str | None:
    here = _find_aitne_context()
    if here is None:
        return None
    try:
        here.engine.check()
    except RuntimeError:
        return FAILED
    return OK


def _find_torch_distributed() -> Any:
    """Return the module ``torch.distributed`` if it has a default group, otherwise None."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def _list_groups(dist: Any) -> list[Any]:
    return list(dist.distributed_c10d._world.pg_map)


def _list_backends(group: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each device of a process group with the backend that connects it."""
    for device in group._device_types:
        with contextlib.suppress(RuntimeError):
            yield device, group._get_backend(device)


def _abort_group(dist: Any, group: Any) -> None:
    import torch

    if group.size() == 1:
        return
    for device, backend in _list_backends(group):
        if backend.name() != "gloo":
            with contextlib.suppress(RuntimeError, AttributeError):
                backend.abort()
        elif device.type == "cpu":
            # gloo's own abort does nothing. An operation that times out does end the others: gloo
            # then closes every connection of the group. That to a peer which has closed its side
            # fails at once, and closes no other.
            for peer in range(group.size()):
                if peer != group.rank():
                    with contextlib.suppress(RuntimeError):
                        backend.recv([torch.empty(1)], peer, 0).wait(timedelta(milliseconds=1))
