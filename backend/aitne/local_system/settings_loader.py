"""Loading of the settings: ``aitne.toml``, then ``AITNE_*`` variables, then the command line."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from aitne.core.errors import SetupError
from aitne.core.models.base import validate_as_written
from aitne.core.platform.dev_cluster_record import DEV_CLUSTER_SCHEDULERS
from aitne.core.settings import BrokerClientSettings, Settings
from aitne.core.validation_messages import explain_error
from aitne.local_system.dev_cluster_records import (
    choose_dev_cluster,
    find_dev_cluster,
    list_dev_clusters,
)
from aitne.local_system.platform_folders import default_data_dir

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SITE_CONF = Path("/etc/slurm/slurm.conf")


class _LoadedSettings(BaseSettings, Settings):
    """Settings whose missing values are read from the file and the environment."""

    model_config = SettingsConfigDict(
        env_prefix="AITNE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of values: passed arguments take precedence over the environment, and
        that over ``aitne.toml``.
        """
        path = find_config_path(init_settings()["data_dir"])
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig")) if path.is_file() else {}
        if "data_dir" in tree:
            raise SetupError(
                f"data_dir cannot be set in {path}: set it with --data-dir or AITNE_DATA_DIR."
            )
        return (init_settings, env_settings, InitSettingsSource(settings_cls, tree))


def find_config_path(data_dir: Path) -> Path:
    """Return the path of ``aitne.toml``: the value of ``AITNE_CONFIG``, otherwise the file in the
    data directory.
    """
    return Path(os.environ.get("AITNE_CONFIG") or data_dir / "aitne.toml")


def _apply_dev_cluster(settings: Settings) -> Settings:
    """Return the settings. If the scheduler may be a development cluster and no other Slurm cluster
    is configured, the settings of that cluster are added.

    Raises:
        SetupError: there is no Slurm cluster, not even a development cluster, or there are several
            development clusters and none is named.
    """
    slurm = settings.slurm
    configured = slurm.conf or slurm.command_prefix or settings.broker.socket or SITE_CONF.exists()
    if settings.scheduler not in DEV_CLUSTER_SCHEDULERS or (
        configured and slurm.dev_cluster is None
    ):
        return settings
    name = slurm.dev_cluster or choose_dev_cluster(list_dev_clusters())
    cluster = find_dev_cluster(name)
    if cluster is None:
        raise SetupError(
            f"There is no Slurm here: neither {SITE_CONF}, nor `conf` under [slurm], nor a "
            f"development cluster {name}. `sudo aitne dev cluster up --name {name}` creates one."
        )
    values = {
        "conf": cluster.slurm_conf,
        "command_prefix": list(cluster.command_prefix),
        "rest_url": cluster.rest_url,
        "software_dir": slurm.software_dir or cluster.software_dir,
        "python": cluster.python,
        "agent_host": "127.0.0.1",
        "portal_address": settings.own_url,
        "import_users": True,
    }
    return settings.model_copy(
        update={
            "slurm": slurm.model_copy(update=values),
            "broker": BrokerClientSettings(socket=cluster.broker_socket),
            "storage": settings.storage.with_scratch(cluster.scratch_pattern),
        }
    )


def _apply_own_accounts(settings: Settings) -> Settings:
    """Return the settings. With ``accounts.mode = "own"``, the settings of the broker that ``aitne
    up`` starts are added, and the folder of the software for jobs, because users cannot read the
    platform's own installation.
    """
    if not settings.uses_user_accounts:
        return settings
    if settings.capabilities.remote:
        raise SetupError(
            f'accounts.mode = "own" is for the embedded scheduler: with {settings.capabilities.title} the '
            "broker runs jobs as the Unix accounts of their users (docs/howto/slurm.md). Remove the "
            "setting."
        )
    socket = settings.broker_dir / "broker.sock"
    if settings.broker.socket not in (None, socket):
        raise SetupError(
            'With accounts.mode = "own" `aitne up` starts the broker itself: remove broker.socket.'
        )
    software_dir = settings.slurm.software_dir or settings.broker_dir / "software"
    return settings.model_copy(
        update={
            "broker": BrokerClientSettings(socket=socket),
            "slurm": settings.slurm.model_copy(update={"software_dir": software_dir}),
        }
    )


def _describe_error(part: ErrorDetails) -> str:
    name = ".".join(map(str, part["loc"])) or "settings"
    if part["type"] == "extra_forbidden":
        return f"{name} is not a setting"
    value = part["input"]
    # Longer input is not a single value, and the URL of a database contains a password.
    shown = isinstance(value, bool | int | float | str) and "://" not in str(value)
    return f"{name}{f' = {value!r}' if shown else ''}: {explain_error(part)}"


def load_settings(data_dir: Path | None = None, **overrides: Any) -> Settings:
    """Return the settings of the platform in ``data_dir``; None: in ``AITNE_DATA_DIR`` or, if that
    is not set, in the default folder.

    ``overrides`` are further settings; those that are None are ignored.

    Raises:
        SetupError: a value is invalid; the message names the setting and its possible source.
    """
    folder = data_dir or Path(os.environ.get("AITNE_DATA_DIR") or default_data_dir())
    values = {name: value for name, value in overrides.items() if value is not None}
    try:
        loaded = validate_as_written(
            values,
            lambda passed: _LoadedSettings(data_dir=folder.expanduser().absolute(), **passed),
        )
    except ValidationError as error:
        lines = "; ".join(_describe_error(part) for part in error.errors())
        raise SetupError(
            f"The settings are wrong: {lines}. They come from {find_config_path(folder)}, then AITNE_* "
            "variables, then the command line."
        ) from error
    except ValueError as error:
        raise SetupError(f"{find_config_path(folder)} cannot be read: {error}") from error
    settings = Settings.model_construct(loaded.model_fields_set, **dict(loaded))
    return _apply_own_accounts(_apply_dev_cluster(settings))
