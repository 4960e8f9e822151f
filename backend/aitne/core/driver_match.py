"""Comparison of GPU drivers and images: the CUDA release that a node's driver supports must be that
of the image or a later one.

A driver runs programs that were built with its own or an earlier release of CUDA
(https://docs.nvidia.com/deploy/cuda-compatibility). The release of a node's driver is a feature of
the node, such as ``cuda12.4``: the embedded scheduler determines it with NVML, and on Slurm an
administrator adds it to ``slurm.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aitne.core.models.cluster import Node
from aitne_train.topology.hostlist import compress_hostlist

_FEATURE = re.compile(r"cuda[-_:]?([0-9]{1,3})\.([0-9]{1,3})", re.IGNORECASE)

Release = tuple[int, int]


def find_supported_cuda(features: Iterable[str]) -> Release | None:
    """Return the CUDA release that a node's driver supports, by its features, or None if no feature
    names one."""
    matches = [_FEATURE.fullmatch(feature) for feature in features]
    return max(((int(one[1]), int(one[2])) for one in matches if one), default=None)


def format_cuda_feature(major: int, minor: int) -> str:
    """Return the node feature, such as ``cuda12.4``, for a driver that supports this CUDA
    release.
    """
    return f"cuda{major}.{minor}"


@dataclass(frozen=True, slots=True)
class DriverMatch:
    """Nodes with the requested GPUs, grouped by whether their GPU driver can run the image."""

    able: tuple[str, ...]
    """Names of the nodes whose driver can run the image."""
    too_old: tuple[str, ...]
    """Names of the nodes whose driver supports only earlier CUDA releases."""
    unknown: tuple[str, ...]
    """Names of the nodes whose driver is unknown."""
    newest: Release | None
    """Latest CUDA release among the nodes whose driver is too old; None if there are none."""

    @property
    def is_impossible(self) -> bool:
        """Return whether no node could run the image."""
        return bool(self.too_old) and not self.able and not self.unknown


def match_drivers(needed: str, nodes: Sequence[Node]) -> DriverMatch:
    """Return the nodes grouped by whether their driver supports the CUDA release ``needed``, such
    as ``12.6``, or a later one.
    """
    major, minor = needed.split(".")
    minimum = (int(major), int(minor))
    has = {node.name: find_supported_cuda(node.features) for node in nodes}
    old = [release for release in has.values() if release is not None and release < minimum]
    return DriverMatch(
        able=tuple(name for name, release in has.items() if release and release >= minimum),
        too_old=tuple(name for name, release in has.items() if release and release < minimum),
        unknown=tuple(name for name, release in has.items() if release is None),
        newest=max(old, default=None),
    )


def describe_driver_problem(needed: str, groups: DriverMatch) -> str | None:
    """Return a sentence for the user about drivers that are too old or unknown; None if every node
    can run the image.
    """
    if not groups.too_old and not groups.unknown:
        return None
    if groups.is_impossible:
        has = "" if groups.newest is None else f", the newest {groups.newest[0]}.{groups.newest[1]}"
        return (
            f"it needs a GPU driver for CUDA {needed}; those of {_format_node_names(groups.too_old)} are "
            f"older{has}"
        )
    parts = [f"The image needs a GPU driver for CUDA {needed}."]
    if groups.too_old:
        parts.append(f"The drivers of {_format_node_names(groups.too_old)} are older.")
    if groups.able:
        parts.append(f"{_format_node_names(groups.able)} can run it.")
    if groups.unknown:
        parts.append(f"The driver of {_format_node_names(groups.unknown)} is unknown.")
    return " ".join(parts)


def _format_node_names(names: Sequence[str]) -> str:
    return compress_hostlist(names)
