"""Paths of the platform's own software that jobs use on a node."""

from __future__ import annotations

from pathlib import PurePath

from aitne.core.models.base import Frozen


class NodeSoftware(Frozen):
    """Paths of software that all nodes, and all accounts of jobs, can read."""

    agent: tuple[str, ...]
    """Command that starts the agent, as a list of arguments before the job folder."""
    launcher: PurePath
    """Path of the program that starts the single-user server (``session_server/launcher.py``)."""
    spawner: tuple[str, ...]
    """Command that starts the ranks of a node (``aitne_train.launcher``), as a list of arguments before its
    options: the node's Python, and last the file.
    """
    notebook: PurePath
    """Folder with the Python packages of the platform that notebooks and their ranks use. A Python
    that is started with the folder, a module and arguments runs the module (``python FOLDER
    aitne_train.notebook.engine``), and prefers the ``aitne`` that is installed in its own environment.
    """
