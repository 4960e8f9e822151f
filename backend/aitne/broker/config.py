"""Settings of the broker.

The platform's own ``aitne.toml`` is never read, because the broker does not trust the platform.
"""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

from pydantic import Field, ValidationError

from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SetupError
from aitne.core.models.base import Seconds, Strict
from aitne.core.settings import AccountSettings, LocalSettings, Settings
from aitne.core.storage.storage_and_container_settings import StorageSettings
from aitne.core.validation_messages import explain_error

_MOST_BYTES = 1 << 20


class BrokerOptions(Strict):
    """Settings of the broker that follow from no setting of the platform."""

    audit: Path = Field(
        Path("/var/log/aitne/broker.jsonl"),
        description="Audit log of requests, their callers and outcomes: one line of JSON each.",
    )
    pam_service: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
        description="The file in /etc/pam.d for password checks; if unset, the broker checks none.",
    )


class BrokerConfig(BrokerOptions):
    """The broker's settings, from ``broker.toml``, which only root can write."""

    socket: Path = Field(
        Path("/run/aitne/broker.sock"), description="Socket to which the platform connects."
    )
    peers: list[int | str] = Field(
        min_length=1, description="The accounts (names or uids) that the platform runs as."
    )
    scheduler: str = Field(
        "slurm",
        description="The scheduler adapter: slurm, slurm_cli, or local for this machine alone.",
    )
    state_dir: Path = Field(
        Path("/var/lib/aitne-broker"),
        description="Folder for the state of the local scheduler; only root can write to it and to "
        "the folders above it.",
    )
    cluster: str = Field("local", description="The cluster's name, as in the platform's settings.")
    max_duration: Seconds = Field(
        7 * 86_400, description="Longest time limit of a job at submission and extension."
    )
    local: LocalSettings = LocalSettings()
    slurm: SlurmSettings = SlurmSettings()
    accounts: AccountSettings = AccountSettings()
    storage: StorageSettings = StorageSettings()

    def to_settings(self) -> Settings:
        """Return the platform's ``Settings`` with the broker's values, with which the scheduler
        adapter is created.
        """
        return Settings(
            data_dir=self.state_dir,
            cluster=self.cluster,
            scheduler=self.scheduler,
            local=self.local,
            slurm=self.slurm,
            accounts=self.accounts,
        )


def load_config(path: Path) -> BrokerConfig:
    """Load and validate the settings in the file ``path``.

    Raises:
        SetupError: an account other than root can write the file, or a value in it is invalid.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            text = os.read(file, _MOST_BYTES).decode("utf-8-sig")
        finally:
            os.close(file)
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from error
    if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SetupError(
            f"Accounts other than root can write {path}, so nothing is started. "
            f"`chown root {path}; chmod go-w {path}` corrects this."
        )
    try:
        return BrokerConfig.model_validate(tomllib.loads(text))
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, part['loc']))}: {explain_error(part)}" for part in error.errors()
        )
        raise SetupError(f"The settings in {path} are wrong: {wrong}") from error
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path} is not TOML: {error}") from error
