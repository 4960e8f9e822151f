"""Records of the development clusters on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster import DevCluster
from aitne.host.state_file import DamagedState, read_state

DESCRIPTORS = Path("/run/aitne-dev")
"""Folder with a file ``<name>.json`` for each development cluster that runs on this machine."""


def find_dev_cluster(name: str = "dev") -> DevCluster | None:
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
