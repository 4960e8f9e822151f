"""Checks of the environment, before training starts, for settings that make it slow or wrong.

NCCL's variables: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html.
"""

from __future__ import annotations

import os
import re
import socket

from aitne_train.launcher.available_cpu_count import count_available_cpus
from aitne_train.launcher.hosts import parse_number
from aitne_train.launcher.visible_gpus import parse_visible_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable, Collection, Mapping

SHM_BYTES_PER_RANK = 64 * 1024 * 1024
"""Shared memory in bytes that NCCL and the DataLoader processes of one rank need. By default a
container has 64 MiB in total."""
_SHM = "/dev/shm"  # noqa: S108 - only its size is read
_LEFT_OVER = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR")


class NodeFacts:
    """Properties of this node that ``find_problems`` checks, in addition to environment variables.

    Args:
        ranks: number of ranks on this node.
        size: number of ranks of the whole run.
        cpus: number of CPUs that the ranks of this node may use.
        shm_bytes: free bytes in ``/dev/shm``; None if it does not exist.
        interfaces: names of network interfaces.
        resolves: returns whether a host name can be resolved to an address.
    """

    def __init__(
        self,
        ranks: int,
        size: int,
        cpus: int,
        shm_bytes: int | None,
        interfaces: Collection[str],
        resolves: Callable[[str], bool],
    ) -> None:
        self.ranks = ranks
        self.size = size
        self.cpus = cpus
        self.shm_bytes = shm_bytes
        self.interfaces = interfaces
        self.resolves = resolves


def find_problems(environ: Mapping[str, str], facts: NodeFacts) -> list[str]:
    """Return a warning for each setting that is wrong or slows down training. A warning names the
    effect and the remedy."""
    return [
        text
        for check in (
            _check_hidden_gpus,
            _check_allocation,
            _check_threads,
            _check_shared_memory,
            _check_interface,
            _check_leftovers,
            _check_master,
        )
        if (text := check(environ, facts)) is not None
    ]


def collect_facts(ranks: int, size: int) -> NodeFacts:
    """Collect the facts of this node, which has ``ranks`` of the run's ``size`` ranks."""
    try:
        stats = os.statvfs(_SHM)
        shm_bytes: int | None = stats.f_bavail * stats.f_frsize
    except OSError:
        shm_bytes = None
    return NodeFacts(
        ranks,
        size,
        count_available_cpus(),
        shm_bytes,
        [name for _, name in socket.if_nameindex()],
        _is_resolvable,
    )


def check_hidden_peers(environ: Mapping[str, str], local_size: int) -> str | None:
    """Return a warning if ``CUDA_VISIBLE_DEVICES`` shows this rank only one GPU although
    ``local_size`` ranks run on its node, which prevents NCCL from copying directly between GPUs.
    Otherwise return None."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or local_size < 2 or len(parse_visible_gpus(visible)) != 1:
        return None
    return (
        f"CUDA_VISIBLE_DEVICES is {visible} and this node has {local_size} ranks: each sees its own GPU only, so NCCL "
        "cannot copy from GPU to GPU and goes through the host's memory. Show all of the node's GPUs to every "
        "rank (srun: --gpus-per-node instead of --gpus-per-task, or --gpu-bind=none) and choose one with "
        "torch.cuda.set_device(local_rank)"
    )


def _check_hidden_gpus(environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or facts.ranks < 2:
        return None
    shown = len(parse_visible_gpus(visible))
    if 0 < shown < facts.ranks:
        return (
            f"CUDA_VISIBLE_DEVICES shows {shown} GPUs, and {facts.ranks} ranks start here: some share a GPU, which "
            "NCCL refuses. Start as many ranks as there are GPUs"
        )
    return None


def _check_allocation(environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    tasks = parse_number(environ.get("SLURM_NTASKS")) or 1
    if tasks > 1 and tasks != facts.size:
        return (
            f"{facts.size} ranks start, but the job requested {tasks} tasks: CPUs or GPUs are idle, or shared. "
            f"Omit -np, or request --ntasks={facts.size}"
        )
    return None


def _check_threads(environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    text, fair = environ.get("OMP_NUM_THREADS", ""), max(1, facts.cpus // facts.ranks)
    if not text:
        if facts.ranks == 1:
            return None
        return (
            f"OMP_NUM_THREADS is not set: each of {facts.ranks} ranks gets {fair}, its share of {facts.cpus} CPUs. "
            "Set it to choose another number"
        )
    first = parse_number(text.split(",")[0]) or 0
    if first > fair and first * facts.ranks > facts.cpus:
        return (
            f"OMP_NUM_THREADS is {text}: {facts.ranks} ranks with as many threads each compete for {facts.cpus} "
            f"CPUs. Set it to {fair}"
        )
    return None


def _check_shared_memory(_environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    needed_bytes = SHM_BYTES_PER_RANK * facts.ranks
    if facts.ranks < 2 or (facts.shm_bytes is not None and facts.shm_bytes >= needed_bytes):
        return None
    has = "is missing" if facts.shm_bytes is None else f"has {facts.shm_bytes >> 20} MiB free"
    return (
        f"{_SHM} {has}, and {facts.ranks} ranks may need {needed_bytes >> 20}: NCCL and DataLoader "
        "workers fail when it is full. Give a container more (docker: --shm-size=8g or --ipc=host)"
    )


def _check_interface(environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    """Return a warning if ``NCCL_SOCKET_IFNAME`` selects no network interface of this node, or only
    the loopback interface; otherwise None.

    ``NCCL_SOCKET_IFNAME=docker,eth`` lists prefixes of names; ``^`` before them excludes them,
    ``=`` demands exact names.
    """
    text = environ.get("NCCL_SOCKET_IFNAME", "")
    if not text:
        return None
    exact, excluded = text.lstrip("^").startswith("="), text.startswith("^")
    names = [name for name in text.lstrip("^=").split(",") if name]

    def is_selected(name: str) -> bool:
        return any(name == prefix if exact else name.startswith(prefix) for prefix in names)

    usable = [name for name in facts.interfaces if is_selected(name) != excluded]
    if usable and usable != ["lo"]:
        return None
    there = ", ".join(sorted(facts.interfaces))
    if usable:
        return (
            f"NCCL_SOCKET_IFNAME is {text}, which leaves only lo: other nodes cannot be reached. This node has "
            f"{there}; unset it to let NCCL choose"
        )
    return (
        f"NCCL_SOCKET_IFNAME is {text}, and this node has no such network interface, but {there}: NCCL will "
        "not start. Name one of them, or unset it"
    )


def _check_leftovers(environ: Mapping[str, str], _facts: NodeFacts) -> str | None:
    names = [name for name in _LEFT_OVER if name in environ]
    if not names:
        return None
    return f"{', '.join(names)} remains from another run and has no effect here: unset it"


def _check_master(environ: Mapping[str, str], facts: NodeFacts) -> str | None:
    host = environ.get("MASTER_ADDR", "")
    if not host:
        return None
    if not re.fullmatch(r"[A-Za-z0-9.:_-]+", host) or not facts.resolves(host):
        return (
            f"MASTER_ADDR is {host!r}, and this node knows no such host. aitne-run replaces it; a program that "
            "is started without aitne-run will wait in vain. Unset it"
        )
    return None


def _is_resolvable(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
