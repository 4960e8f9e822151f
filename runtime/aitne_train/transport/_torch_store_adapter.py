"""PyTorch's interface to the run's rendezvous store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist

from aitne_train.transport.base import Group


class TorchStore(dist.Store):
    """Adapter by which PyTorch uses the run's rendezvous store. PyTorch's own ``TCPStore`` is not
    used, because it does not authenticate clients.
    """

    def __init__(self, group: Group) -> None:
        super().__init__()
        self._group = group
        self._key = f"{group.name}/torch_pg/store/"

    def set(self, key: str, value: str | bytes) -> None:
        """Store a value under the key in the run's rendezvous store."""
        data = value.encode() if isinstance(value, str) else value
        self._group.store.set(self._key + key, data)

    def get(self, key: str) -> bytes:
        """Wait until the key has a value, and return it.

        Raises ``TimeoutError`` after the timeout of the group.
        """
        return self._group.store.get(self._key + key, self._group.timeout_s)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all of the keys have values now."""
        try:
            for key in keys:
                self._group.store.get(self._key + key, 0.0)
        except TimeoutError:
            return False
        return True

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all of the keys have values; ``timeout`` applies to each key (None: the
        timeout of the group).

        Raises ``TimeoutError`` if a key gets none in time.
        """
        timeout_s = self._group.timeout_s if timeout is None else timeout.total_seconds()
        for key in keys:
            self._group.store.get(self._key + key, timeout_s)
