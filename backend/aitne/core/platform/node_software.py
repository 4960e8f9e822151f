"""Paths of the platform's own software that jobs use on a node."""

from __future__ import annotations

from pathlib import PurePath

from aitne.core.models.base import Frozen


class NodeSoftware(Frozen):
    """Paths that every node can read, and every account that jobs run as."""

    agent: tuple[str, ...]
    """The agent's argument vector, up to the job's folder."""
    launcher: PurePath
    """The program that becomes the single-user server (``hub/launcher.py``)."""
    spawner: tuple[str, ...]
    """The argument vector of the program that starts a node's ranks (``aitne.launch``), up to its
    own: the node's Python, and as the last one the file."""
