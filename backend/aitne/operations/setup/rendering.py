"""Rendering of the files to install for the answers: settings, units, proxy configuration."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aitne.broker.config import BrokerConfig
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.platform.broker_folder import broker_dir
from aitne.core.settings import Settings
from aitne.core.toml_writer import render_toml
from aitne.core.validation_messages import explain_error
from aitne.operations.backup.backup_units import TIMER, make_backup_units
from aitne.operations.setup.answers import Answers, SlurmAnswers

CONFIG_DIR = "/etc/aitne"
ANSWERS = f"{CONFIG_DIR}/setup.toml"
BROKER_SOCKET = "/run/aitne/broker.sock"
PROXY_DIR = "/run/aitne-portal"
PROXY_SOCKET = f"{PROXY_DIR}/portal.sock"
PROXY_FILES = {"nginx": "/etc/nginx/conf.d/aitne.conf", "caddy": "/etc/caddy/Caddyfile"}
TMPFILES = "/etc/tmpfiles.d/aitne-portal.conf"
UNITS = "/etc/systemd/system"
LOGROTATE = "/etc/logrotate.d/aitne-broker"
DOCTOR_TIMER = "aitne-doctor.timer"
_TEMPLATES = Path(__file__).parent / "templates"
_HEAD = (
    "# Written by `aitne admin setup` from " + ANSWERS + ".\n"
    "# Change the answers there and run it again; it shows changes made here before it replaces them.\n"
)
_YEAR = "max-age=31536000"
_OF_BROKER = SlurmAnswers.model_fields.keys() - SlurmSettings.model_fields.keys() | {
    "operator",
    "jwt_key",
}
"""Answers of the section `slurm` that `aitne.toml` does not have."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - every address, which loopback reaches


class _Template(string.Template):
    """Text with `@{name}` where a value goes; `$` and braces are nginx's and Caddy's own."""

    delimiter = "@"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that must exist; an existing one is not changed."""

    path: str
    owner: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class File:
    """A file with its content, mode and owner."""

    path: str
    text: str
    mode: int = 0o644
    group: str = "root"
    """Group of the file; the owner is always root."""


def list_folders(answers: Answers) -> Iterator[Folder]:
    """Yield the folders that the platform needs before its first start, parents first."""
    yield Folder(CONFIG_DIR, "root")
    if answers.scheduler == "slurm":
        yield Folder(str(answers.data_dir), answers.account, 0o700)
        yield Folder(str(answers.slurm.software_dir), "root")


def list_units(answers: Answers) -> tuple[str, ...]:
    """Return the names of the units, in the order in which they are started."""
    return ("aitne-broker", "aitne") if answers.scheduler == "slurm" else ("aitne",)


def list_timers(answers: Answers) -> tuple[str, ...]:
    """Return the names of the timers to start: of the doctor, and of backups if they have a place."""
    return (DOCTOR_TIMER, TIMER) if has_backups(answers) else (DOCTOR_TIMER,)


def has_backups(answers: Answers) -> bool:
    """Return whether the settings name a place for regular backups."""
    return answers.backup.to is not None


def render_files(answers: Answers) -> list[File]:
    """Return all files to install for the answers: the answers themselves, the settings, systemd
    units and the proxy's configuration.

    Raises:
        InvalidInput: the answers result in invalid settings.
    """
    rendered = [
        File(ANSWERS, render_toml(_without_none(answers.given)), 0o600),
        File(
            f"{CONFIG_DIR}/aitne.toml",
            _HEAD + render_toml(render_settings(answers)),
            0o640,
            answers.account,
        ),
    ]
    if answers.scheduler == "slurm":
        broker = _HEAD + render_toml(render_broker_settings(answers))
        rendered.append(File(f"{CONFIG_DIR}/broker.toml", broker, 0o600))
    rendered += [File(path, _HEAD + text) for path, text in render_service_files(answers).items()]
    if has_backups(answers):
        backup = make_backup_units(
            program=answers.programs / "aitne",
            data_dir=answers.data_dir,
            user=answers.account,
            config=Path(CONFIG_DIR, "aitne.toml"),
        )
        rendered += [File(f"{UNITS}/{name}", _HEAD + text) for name, text in backup.items()]
    if answers.has_proxy:
        folder = f"d {PROXY_DIR} 2750 {answers.account} {answers.proxy.group} -\n"
        rendered.append(File(TMPFILES, _HEAD + folder))
    if answers.proxy.server in PROXY_FILES:
        rendered.append(File(PROXY_FILES[answers.proxy.server], _HEAD + render_proxy(answers)))
    return rendered


def render_service_files(answers: Answers) -> dict[str, str]:
    """Return what a machine needs to run the platform as a service, each text by its path: the units
    of the platform, of the broker and of the daily doctor, and the rotation of the broker's audit log.
    """
    slurm = answers.scheduler == "slurm"
    audit = answers.broker.audit if slurm else broker_dir(answers.data_dir) / "broker.jsonl"
    values = {
        "programs": str(answers.programs),
        "account": answers.account,
        "data_dir": str(answers.data_dir),
        "audit": str(audit),
    }
    platform = "aitne.service" if slurm else "aitne-one-machine.service"
    sources = {f"{UNITS}/aitne-broker.service": "aitne-broker.service"} if slurm else {}
    sources |= {f"{UNITS}/aitne.service": platform, LOGROTATE: "aitne-broker.logrotate"}
    sources |= {f"{UNITS}/{name}": name for name in ("aitne-doctor.service", DOCTOR_TIMER)}
    return {path: render_template(source, values) for path, source in sources.items()}


def render_settings(answers: Answers) -> dict[str, Any]:
    """Return the content of ``aitne.toml``: the settings among the answers, and those that follow.

    Raises:
        InvalidInput: a setting is invalid, or was given although it follows from another answer.
    """
    given = _without_none(answers.given_settings)
    given.pop("data_dir", None)  # the units have it
    following: dict[str, Any] = {
        "proxy_socket": PROXY_SOCKET if answers.has_proxy else None,
        "tls": _make_tls_section(answers),
    }
    if answers.scheduler == "slurm":
        site = {"software_dir": str(answers.slurm.software_dir), **given.pop("slurm", {})}
        given["slurm"] = {name: value for name, value in site.items() if name not in _OF_BROKER}
        following["broker"] = {"socket": BROKER_SOCKET}
    else:
        following["accounts"] = {"mode": "own", "platform": answers.account}
    values = _merge_settings(given, _without_none(following))
    _check_settings(Settings, values)
    return values


def render_broker_settings(answers: Answers) -> dict[str, Any]:
    """Return the content of ``broker.toml``, which agrees with ``aitne.toml``.

    Raises:
        InvalidInput: a setting is invalid.
    """
    platform = render_settings(answers)
    site = {name: value for name, value in platform["slurm"].items() if "address" not in name}
    accounts = {
        name: value for name, value in platform.get("accounts", {}).items() if name != "map"
    }
    jwt_key = answers.slurm.jwt_key
    own = {"operator": answers.operator, "jwt_key": None if jwt_key is None else str(jwt_key)}
    values = _without_none(
        {
            "socket": BROKER_SOCKET,
            "peers": [answers.account],
            "scheduler": answers.scheduler,
            "cluster": platform.get("cluster"),
            "max_duration": platform.get("limits", {}).get("max_duration"),
            **answers.given.get("broker", {}),
            "slurm": {**site, **own},
            "accounts": accounts or None,
            "storage": platform.get("storage"),
        }
    )
    _check_settings(BrokerConfig, values)
    return values


def render_proxy(answers: Answers) -> str:
    """Return the configuration of the reverse proxy for both origins."""
    caddy = answers.proxy.server == "caddy"
    portal, sessions = answers.portal_files, answers.sessions_files
    assert sessions is not None  # noqa: S101 - the answers were validated
    host = _ANY.get(answers.bind, answers.bind)
    values = {
        "portal_host": answers.portal_host,
        "session_hosts": (", " if caddy else " ").join(answers.session_hosts),
        "sessions_certificate": str(sessions[0]),
        "sessions_key": str(sessions[1]),
        "proxy_socket": PROXY_SOCKET,
        "sessions_address": f"{f'[{host}]' if ':' in host else host}:{answers.port_of_sessions}",
        "sessions_hsts": _YEAR + ("; includeSubDomains" if answers.has_user_domains else ""),
    }
    if not caddy:
        assert portal is not None  # noqa: S101 - the answers were validated
        files = {"portal_certificate": str(portal[0]), "portal_key": str(portal[1])}
        return render_template("nginx.conf", {**values, **files})
    email = answers.certificates.email
    acme = (
        ""
        if portal
        else render_template("acme.Caddyfile", {"email": f"email {email}" if email else ""})
    )
    portal_tls = f"\ttls {portal[0]} {portal[1]}\n\n" if portal else ""
    return render_template("Caddyfile", {**values, "acme": acme, "portal_tls": portal_tls})


def render_template(name: str, values: Mapping[str, str]) -> str:
    """Return the template ``name`` with the values in place."""
    return _Template((_TEMPLATES / name).read_text(encoding="utf-8")).substitute(values)


def _make_tls_section(answers: Answers) -> dict[str, Any] | None:
    if answers.has_proxy or answers.certificates.source == "none":
        return None
    files = answers.certificates.model_dump(mode="json")
    return {
        "enabled": True,
        "certificate": files["portal"],
        "key": files["portal_key"],
        "sessions_certificate": files["sessions"],
        "sessions_key": files["sessions_key"],
    }


def _merge_settings(
    given: Mapping[str, Any], following: Mapping[str, Any], prefix: str = ""
) -> dict[str, Any]:
    merged = dict(given)
    for name, value in following.items():
        if isinstance(value, dict) and isinstance(merged.get(name, {}), dict):
            merged[name] = _merge_settings(merged.get(name, {}), value, f"{prefix}{name}.")
        elif name in merged:
            raise InvalidInput.field(
                f"{prefix}{name}", "follows from another answer: change that one"
            )
        else:
            merged[name] = value
    return merged


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values other than None, sections likewise."""
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if value is not None
    }


def _check_settings(model: type[Settings] | type[BrokerConfig], values: Mapping[str, Any]) -> None:
    try:
        model.model_validate(values)
    except ValidationError as error:
        problems = [
            FieldProblem(".".join(map(str, part["loc"])), explain_error(part))
            for part in error.errors()
        ]
        sentences = "; ".join(
            f"{problem.field}: {problem.message}".removeprefix(": ") for problem in problems
        )
        raise InvalidInput(f"The answers are wrong: {sentences}.", problems) from error
