"""Files that only root can read; the doctor reads them before it becomes the account of the platform."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from aitne.broker.config import BrokerConfig, load_config
from aitne.core.errors import SetupError
from aitne.core.platform.own_accounts import broker_dir
from aitne.operations.upgrade.trust import changeable_by_others

BROKER_CONFIG = Path("/etc/aitne/broker.toml")


@dataclass(frozen=True, slots=True)
class RootFiles:
    """Content of files that belong to root."""

    brokers: dict[Path, BrokerConfig | str]
    """Settings of the broker by their file; a sentence, if the broker does not start with them."""


def read_root_files(data_dir: Path) -> RootFiles | None:
    """Return what root can read for the platform in ``data_dir``; None: this process is not root."""
    if os.geteuid() != 0:
        return None
    paths = (BROKER_CONFIG, broker_dir(data_dir) / "broker.toml")
    return RootFiles({path: _broker_config(path) for path in paths if path.is_file()})


def _broker_config(path: Path) -> BrokerConfig | str:
    problem = changeable_by_others(path)
    if problem is not None:
        return f"{problem}, and so {path}, which tells the broker what to permit."
    try:
        return load_config(path)
    except SetupError as error:
        return error.message
