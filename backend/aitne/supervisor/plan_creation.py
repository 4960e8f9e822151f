"""Creation of the plan of the supervised processes from the settings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aitne
from aitne.core.settings import Settings
from aitne.local_system import settings_report, systemd_notification
from aitne.local_system.http_status_client import PROBE_SOCKET
from aitne.local_system.settings_loader import find_config_path
from aitne.services.platform.certificate_authorities import (
    proxy_files,
    sessions_authority_file,
    sessions_files,
)
from aitne.supervisor import node_software_installation, per_user_accounts, software_environments
from aitne.supervisor.process_account import ProcessAccount
from aitne.supervisor.supervisor_plan import ChildPlan, SupervisorPlan

HUB = Path(aitne.__file__).parent / "hub"
_NOT_SETTINGS = ("AITNE_STATE_HOME",)


def make_plan(settings: Settings, account: ProcessAccount | None = None) -> SupervisorPlan:
    """Return the plan of a platform with these settings, whose processes run under ``account``
    (None: the supervisor's own). Raises ``SetupError`` if Node.js is missing.
    """
    python = sys.executable
    starter = (
        per_user_accounts.find_starting_account(settings) if settings.uses_user_accounts else None
    )
    return SupervisorPlan(
        data_dir=str(settings.data_dir),
        url=settings.portal_url,
        sessions_url=settings.sessions_origin,
        ready_url=f"{settings.internal_url}/readyz",
        hub_url=_hub_url(settings),
        base_env=_base_env(settings),
        init=[
            *(python, "-m", "aitne.controller", "init"),
            *([] if starter is None else ["--administrator", starter]),
        ],
        drain=[] if settings.capabilities.remote else [python, "-m", "aitne.controller", "drain"],
        children=[
            ChildPlan(
                name="api",
                argv=[python, "-m", "aitne.api"],
                port=settings.port,
                probe=f"{settings.internal_url}/healthz",
                probe_socket=PROBE_SOCKET,
            ),
            ChildPlan(
                name="controller",
                argv=[python, "-m", "aitne.controller", "run"],
                heartbeat=True,
            ),
            make_hub_child(settings),
            make_proxy_child(settings),
            *([make_broker_child(settings)] if settings.uses_user_accounts else []),
        ],
        held=("init", "api", "controller"),
        account=account,
    )


def make_broker_child(settings: Settings) -> ChildPlan:
    """Return the plan of the broker, through which each job runs under its user's account on this
    machine.
    """
    config = settings.broker_dir / per_user_accounts.CONFIG
    return ChildPlan(
        name="broker",
        # -P: nothing is imported from the working directory.
        argv=[sys.executable, "-P", "-m", "aitne.broker", "--config", str(config)],
        env={**per_user_accounts.plain_environment(), "PYTHONUNBUFFERED": "1"},
        heartbeat=True,
        as_root=True,
    )


def envs_root(settings: Settings) -> Path | None:
    """Return the folder that contains the environments of JupyterHub and the proxy; None: the
    default folder of the user that starts the platform.
    """
    return software_environments.SYSTEM_ENVS if settings.uses_user_accounts else None


def make_hub_child(settings: Settings) -> ChildPlan:
    """Return the plan of the JupyterHub process, which runs in a virtual environment of its own.

    It cannot import the platform's settings, so they are passed as environment variables.
    """
    env_dir = software_environments.hub_env_dir(envs_root(settings))
    env = {
        "AITNE_HUB_BIND_URL": f"http://127.0.0.1:{settings.port_of_hub}",
        "AITNE_HUB_SESSIONS_URL": settings.sessions_origin,
        "AITNE_HUB_USER_DOMAINS": "1" if settings.has_user_domains else "0",
        "AITNE_HUB_PORTAL_URL": settings.portal_url,
        "AITNE_HUB_API_URL": settings.internal_url,
        "AITNE_HUB_PROXY_API_URL": f"http://127.0.0.1:{settings.port_of_proxy_api}",
        "AITNE_HUB_DATA_DIR": str(settings.data_dir / "hub"),
        "AITNE_HUB_SECRETS_DIR": str(settings.secrets_dir),
        "AITNE_HUB_TEMPLATES": str(settings.run_dir / "pages" / "hub"),
        "AITNE_HUB_LOGIN_S": str(settings.auth.session_lifetime),
    }
    if settings.tls.enabled:
        client = proxy_files(settings)
        env |= {
            "AITNE_HUB_TLS_AUTHORITY": str(sessions_authority_file(settings)),
            "AITNE_HUB_TLS_CERTIFICATE": str(client.certificate),
            "AITNE_HUB_TLS_KEY": str(client.key),
        }
    if settings.hub_connect_url is not None:
        env["AITNE_HUB_CONNECT_URL"] = settings.hub_connect_url
    python = str(env_dir / "bin/python")
    return ChildPlan(
        name="hub",
        argv=[python, str(HUB / "serve.py"), "-f", str(HUB / "jupyterhub_config.py")],
        env=env,
        port=settings.port_of_hub,
        probe=f"{_hub_url(settings)}/health",
    )


def make_proxy_child(settings: Settings) -> ChildPlan:
    """Return the plan of the proxy, through which browsers access sessions. Raises ``SetupError``
    if Node.js is missing.
    """
    node, *script = software_environments.proxy_command(envs_root(settings))
    api = settings.port_of_proxy_api
    return ChildPlan(
        name="proxy",
        argv=[
            node,
            "--max-semi-space-size=1",  # a small young generation: it holds routes, not data
            *("--require", str(HUB / "proxy_connections.cjs")),
            *("--require", str(HUB / "proxy_headers.cjs")),
            *("--require", str(HUB / "proxy_certificates.cjs")),
            *script,
            *(["--host-routing"] if settings.has_user_domains else []),
            *(_tls_options(settings) if settings.tls.enabled else []),
            *("--ip", settings.bind, "--port", str(settings.port_of_sessions)),
            *("--api-ip", "127.0.0.1", "--api-port", str(api)),
            *("--error-path", str(settings.run_dir / "pages"), "--log-level", "warn"),
        ],
        env={
            "AITNE_PROXY_SHARED_ORIGIN": "0" if settings.has_user_domains else "1",
            "AITNE_PROXY_HSTS": _make_hsts_value(settings),
        },
        secret_env={"CONFIGPROXY_AUTH_TOKEN": "proxy_auth_token"},
        port=settings.port_of_sessions,
        probe=f"http://127.0.0.1:{api}/api/routes",
        probe_secret="proxy_auth_token",  # noqa: S106 (a file's name)
    )


def _make_hsts_value(settings: Settings) -> str:
    """Return the value of the header Strict-Transport-Security for the sessions' origin; empty
    without https.
    """
    if not settings.sessions_origin.startswith("https:"):
        return ""
    # Browsers would use https for other programs of this machine, too.
    local = urlsplit(settings.sessions_origin).hostname == "localhost"
    covers_users = settings.has_user_domains and not local
    return f"max-age=31536000{'; includeSubDomains' if covers_users else ''}"


def _tls_options(settings: Settings) -> list[str]:
    """Return the proxy's TLS options, for connections from browsers and to sessions."""
    server, client = sessions_files(settings), proxy_files(settings)
    return [
        *("--ssl-cert", str(server.certificate), "--ssl-key", str(server.key)),
        *("--client-ssl-cert", str(client.certificate), "--client-ssl-key", str(client.key)),
        *("--client-ssl-ca", str(sessions_authority_file(settings))),
    ]


def make_settings_env(settings: Settings) -> dict[str, str]:
    """Return the settings as environment variables ``AITNE_*``, from which ``load_settings``
    restores them.
    """
    values = settings_report.format_quantities(settings)
    return {f"AITNE_{name.upper()}": _format_value(value) for name, value in values.items()}


def _format_value(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _base_env(settings: Settings) -> dict[str, str]:
    env = (
        per_user_accounts.make_process_environment(settings)
        if settings.uses_user_accounts
        else _inherited_env()
    )
    env |= make_settings_env(settings)
    env[settings_report.VARIABLE] = settings_report.format_sources(settings)
    env["AITNE_CONFIG"] = str(find_config_path(settings.data_dir).absolute())
    env["AITNE_SESSION_ENV"] = str(get_session_env_dir(settings))
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _inherited_env() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if (not name.startswith("AITNE_") or name in _NOT_SETTINGS)
        and name not in systemd_notification.VARIABLES
    }


def get_session_env_dir(settings: Settings) -> Path:
    """Return the folder of the environment in which the sessions of this platform run."""
    if not settings.capabilities.trusts_agents:
        return node_software_installation.get_node_session_env(settings)
    return software_environments.session_env_dir()


def _hub_url(settings: Settings) -> str:
    return f"http://127.0.0.1:{settings.port_of_hub}/hub"
