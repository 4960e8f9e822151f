"""Import of ipyparallel and ipykernel without the modules that ranks and kernels do not use. Their
import takes a third of the time until a rank can execute cells.

Programs can still import these modules themselves.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_CLUSTER = "ipyparallel.cluster"
_OF_CLUSTER = ("Cluster", "ClusterManager")
"""What ipyparallel itself imports from its module for clusters."""


def import_without_clusters() -> None:
    """Import ipyparallel without its modules that start clusters and batch jobs, because the
    platform starts ranks."""
    if "ipyparallel" in sys.modules:
        return
    placeholder: Any = ModuleType(_CLUSTER)
    for name in _OF_CLUSTER:
        setattr(placeholder, name, None)
    sys.modules[_CLUSTER] = placeholder
    try:
        parallel: Any = importlib.import_module("ipyparallel")
    finally:
        del sys.modules[_CLUSTER]
    for name in _OF_CLUSTER:
        delattr(parallel, name)
    parallel.__getattr__ = _import_from_cluster


def _import_from_cluster(name: str) -> Any:
    if name not in _OF_CLUSTER:
        raise AttributeError(f"module 'ipyparallel' has no attribute {name!r}")
    return getattr(importlib.import_module(_CLUSTER), name)


def import_without_debugger() -> None:
    """Import ipykernel without debugpy, because notebooks cannot debug ranks."""
    if "debugpy" in sys.modules:
        return
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("ipykernel.debugger")
    finally:
        del sys.modules["debugpy"]
