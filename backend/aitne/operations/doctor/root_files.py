"""Files that only root can read; the doctor reads them before it becomes the account of the platform."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from aitne.broker.config import BrokerConfig, load_config
from aitne.core.errors import SetupError
from aitne.core.platform.broker_folder import broker_dir
from aitne.operations.upgrade.command_account import describe_other_writers
from aitne.operations.upgrade.platform_service import select_start_environment
from aitne.services.platform import exposed_files
from aitne.supervisor.supervisor_plan import FILE, SupervisorPlan

BROKER_CONFIG = exposed_files.BROKER_CONFIG


@dataclass(frozen=True, slots=True)
class RootFiles:
    """Content of files that belong to root."""

    brokers: dict[Path, BrokerConfig | str]
    """Settings of the broker by their file; a sentence, if the broker does not start with them."""
    variables: dict[str, str]
    """Settings of the last start, if root started the platform for another account."""


def read_root_files(data_dir: Path) -> RootFiles | None:
    """Return what root can read for the platform in ``data_dir``; None: this process is not root."""
    if os.geteuid() != 0:
        return None
    paths = (BROKER_CONFIG, broker_dir(data_dir) / "broker.toml")
    brokers = {path: _broker_config(path) for path in paths if path.is_file()}
    plan = broker_dir(data_dir) / FILE
    trusted = plan.is_file() and describe_other_writers(plan) is None
    return RootFiles(brokers, read_variables_of_last_start(plan.parent) if trusted else {})


def read_variables_of_last_start(folder: Path) -> dict[str, str]:
    """Return the ``AITNE_*`` variables, and the options as variables, with which the platform whose
    plan is in ``folder`` was started last; they name the file of settings. Without a plan that this
    account can read there are none.
    """
    try:
        variables = select_start_environment(SupervisorPlan.read(folder).base_env)
    except (OSError, ValueError, TypeError, KeyError):  # none, or that of another release
        return {}
    return {name: text for name, text in variables.items() if name.startswith("AITNE_")}


def _broker_config(path: Path) -> BrokerConfig | str:
    problem = describe_other_writers(path)
    if problem is not None:
        return f"{problem}, and so {path}, which tells the broker what to permit."
    try:
        return load_config(path)
    except SetupError as error:
        return error.message
