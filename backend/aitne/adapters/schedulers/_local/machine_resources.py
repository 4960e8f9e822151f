"""Resources of this machine: those that ``[local]`` in the settings declares, otherwise those
detected.
"""

from __future__ import annotations

import os
import re
import socket

from aitne.adapters.schedulers._local.node_resources import Gpu, NodeCapacity
from aitne.core.driver_match import format_cuda_feature
from aitne.core.errors import SetupError
from aitne.core.settings import LocalSettings
from aitne.core.units import parse_gres


def list_node_capacities(settings: LocalSettings) -> tuple[NodeCapacity, ...]:
    """Return the resources of each node of the ``local`` scheduler. GPUs that the settings declare
    are numbered across all nodes; detected GPUs belong to the first node.

    Raises:
        SetupError: ``gpus`` is not ``auto``, ``none`` or a valid declaration.
    """
    cpus = settings.cpus or len(os.sched_getaffinity(0))
    memory = settings.memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    names = (
        [_host_name()]
        if settings.nodes == 1
        else [f"node{number:02}" for number in range(1, settings.nodes + 1)]
    )
    auto = settings.gpus.strip().lower() == "auto"
    types, features = _detect_gpus() if auto else (_parse_declared_gpus(settings.gpus), ())
    nodes = []
    for position, name in enumerate(names):
        first = 0 if auto else position * len(types)
        here = types if position == 0 or not auto else []
        gpus = tuple(Gpu(first + offset, kind) for offset, kind in enumerate(here))
        nodes.append(NodeCapacity(name, cpus, memory, gpus, features if gpus else ()))
    return tuple(nodes)


def _host_name() -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return name[:63] or "localhost"


def _parse_declared_gpus(text: str) -> list[str | None]:
    """Return the type of each GPU that a setting such as ``a100:4``, ``4`` or ``a100:2,v100:2``
    declares; None for a GPU without a type.
    """
    if text.strip().lower() in ("", "none"):
        return []
    try:
        resources = parse_gres(",".join(f"gpu:{part.strip()}" for part in text.split(",")))
    except ValueError as error:
        raise SetupError(
            f"[local] gpus = {text!r} is invalid: {error}. Write auto, none, a number, or "
            "type:number such as a100:4."
        ) from error
    return [gres.type for gres in resources for _ in range(gres.count)]


def _detect_gpus() -> tuple[list[str | None], tuple[str, ...]]:
    """Return the type of each GPU that NVML reports, and the feature that names the CUDA version of
    the driver. Both are empty if there is no NVML or driver.
    """
    try:
        import pynvml
    except ImportError:
        return [], ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return [], ()
    try:
        handles = (
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        )
        types = [gpu_type(_decode_name(pynvml.nvmlDeviceGetName(handle))) for handle in handles]
        # 12040 is CUDA 12.4 (nvmlSystemGetCudaDriverVersion).
        release = pynvml.nvmlSystemGetCudaDriverVersion()
        return types, (format_cuda_feature(release // 1_000, release % 1_000 // 10),)
    except pynvml.NVMLError:
        return [], ()
    finally:
        pynvml.nvmlShutdown()


def _decode_name(name: str | bytes) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def gpu_type(product: str) -> str | None:
    """Return the GPU type that a product name contains, such as ``a100`` for ``NVIDIA
    A100-SXM4-80GB`` or ``rtx4090`` for ``NVIDIA GeForce RTX 4090``; None if it contains none.
    """
    words = re.split(r"[^a-z0-9]+", product.lower())
    parts: list[str] = []
    for word in words:
        if word in ("nvidia", "tesla", "quadro", "geforce", ""):
            continue
        parts.append(word)
        if any(char.isdigit() for char in word):
            break
    name = "".join(parts)[:40]
    return name if name[:1].isalpha() else None
