"""Records of the development clusters on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.local_system.state_file_reader import DamagedState, read_state

DESCRIPTORS = Path("/run/aitne-dev")
"""Folder with a file ``<name>.json`` for each development cluster that runs on this machine."""


DEFAULT = "dev"
"""Name of a development cluster that is created without one."""


def list_dev_clusters(folder: Path = DESCRIPTORS) -> list[str]:
    """Return the names of the development clusters on this machine, in alphabetical order."""
    return sorted(path.stem for path in folder.glob("*.json"))


def choose_dev_cluster(running: Sequence[str]) -> str:
    """Return the name of the development cluster that a platform uses if its settings name none:
    the one that runs; if none runs, ``DEFAULT``.

    Raises:
        SetupError: several run.
    """
    if len(running) > 1:
        raise SetupError(
            f"Several development clusters run on this machine: {', '.join(running)}. Name the one to use: "
            f"`AITNE_SLURM__DEV_CLUSTER={running[0]}`, or dev_cluster under [slurm] in aitne.toml."
        )
    return running[0] if running else DEFAULT


def find_dev_cluster(name: str = DEFAULT) -> DevCluster | None:
    """Return the record of the development cluster of that name; None if there is none.

    Raises:
        SetupError: the record cannot be read.
    """
    path = DESCRIPTORS / f"{name}.json"
    try:
        return read_state(DevCluster, path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {os.strerror(error.errno or 0)}.") from error
    except DamagedState as error:
        raise SetupError(
            f"{path} is not the record of a development cluster; "
            f"`aitne dev cluster down --name {name}` removes it and the rest of the cluster."
        ) from error
