"""Module-level functions ``aitne.submit``, ``aitne.map``, ``aitne.future`` and ``aitne.futures``.
They call the methods of ``client.functions`` with the client that ``Client()`` returns.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading

from aitne.client.client import Client
from aitne.client.futures import Future, FutureArray
from aitne.client.running_job import RunningJob, job, notify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")
    Item = TypeVar("Item")

__all__ = [
    "Future",
    "FutureArray",
    "RunningJob",
    "as_completed",
    "future",
    "futures",
    "job",
    "map",
    "notify",
    "submit",
]

as_completed = concurrent.futures.as_completed
_VARIABLES = ("AITNE_URL", "AITNE_TOKEN", "AITNE_DATA_DIR")
_clients: dict[tuple[str | None, ...], Client] = {}
_lock = threading.Lock()


def submit(
    fn: Callable[..., T],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    nodes: int = 1,
    gpus: int | str | None = None,
    ranks_per_node: int | None = None,
    max_duration: str | None = None,
    python: str | None = None,
    sync: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    **job: Any,
) -> Future[T]:
    """Submit a job that calls ``fn(*args, **kwargs)``, and return a future of its result.

    ``client`` is the client to use; None: the one that ``Client()`` returns. The other arguments
    and the errors are documented at ``client.functions.submit``.
    """
    return (client or _get_client()).functions.submit(
        fn,
        *args,
        kwargs=kwargs,
        nodes=nodes,
        gpus=gpus,
        ranks_per_node=ranks_per_node,
        max_duration=max_duration,
        python=python,
        sync=sync,
        **job,
    )


def map(  # noqa: A001 - as concurrent.futures calls it
    fn: Callable[[Item], T],
    items: Iterable[Item],
    *,
    max_parallel: int | None = None,
    nodes: int = 1,
    gpus: int | str | None = None,
    ranks_per_node: int | None = None,
    max_duration: str | None = None,
    python: str | None = None,
    sync: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    **job: Any,
) -> FutureArray[T]:
    """Submit an array job that calls ``fn(item)`` for each item in a task of its own, at most
    ``max_parallel`` at once, and return the futures in the order of the items.

    ``client``, the other arguments and the errors are those of ``submit``.
    """
    return (client or _get_client()).functions.map(
        fn,
        items,
        max_parallel=max_parallel,
        nodes=nodes,
        gpus=gpus,
        ranks_per_node=ranks_per_node,
        max_duration=max_duration,
        python=python,
        sync=sync,
        **job,
    )


def future(job_id: str, *, client: Client | None = None) -> Future[Any]:
    """Return the future of a job that was submitted earlier, as ``client.functions.future``."""
    return (client or _get_client()).functions.future(job_id)


def futures(job_id: str, *, client: Client | None = None) -> FutureArray[Any]:
    """Return the futures of an array job that was submitted earlier, as
    ``client.functions.futures``."""
    return (client or _get_client()).functions.futures(job_id)


def _get_client() -> Client:
    """Return the client for the current environment variables; the same object until they
    change.
    """
    key = tuple(os.environ.get(name) for name in _VARIABLES)
    with _lock:
        if key not in _clients:
            _clients[key] = Client()
        return _clients[key]
