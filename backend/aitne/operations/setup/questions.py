"""Questions of ``aitne admin setup`` at a terminal: their order, defaults, and checks of single answers."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from aitne.core.validation import explain
from aitne.operations.setup import machine
from aitne.operations.setup.answers import Answers, contradictions
from aitne.operations.setup.checks import account_named
from aitne.operations.setup.slurm import defaults as slurm_defaults

Values = dict[str, Any]
"""Answers by dotted name, such as ``slurm.software_dir``."""
_REQUIRED = {
    "scheduler": "local",
    "portal_url": "http://localhost:8000",
    "sessions_url": "http://localhost:8001",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question: the answer's name, the text, its default, and when it is put."""

    field: str
    text: str
    default: Callable[[Values], str | bool | None] = lambda values: None
    put: Callable[[Values], bool] = lambda values: True
    optional: bool = False
    """True if an empty answer means that there is none."""


def _secure(values: Values) -> bool:
    return str(values.get("portal_url", "")).startswith("https:")


def _slurm(values: Values) -> bool:
    return values.get("scheduler") == "slurm"


def _source(*sources: str) -> Callable[[Values], bool]:
    return lambda values: values.get("certificates.source") in sources


def _server(values: Values) -> str:
    return next((name for name in ("nginx", "caddy") if shutil.which(name)), "nginx")


def _certificates(values: Values) -> str:
    return {"nginx": "files", "caddy": "acme"}.get(values.get("proxy.server", ""), "platform")


def _address(offset: int) -> Callable[[Values], str]:
    def address(values: Values) -> str:
        tls = _secure(values) and values.get("proxy.server", "none") == "none"
        port = int(values.get("port", 8_000)) + offset
        return f"http{'s' if tls else ''}://{socket.getfqdn()}:{port}"

    return address


def _bind(values: Values) -> str:
    local = values.get("scheduler") == "local" and values.get("proxy.server", "none") != "none"
    return "127.0.0.1" if local else "0.0.0.0"  # noqa: S104 - nodes or browsers must reach it


def _no_account(values: Values) -> bool:
    return account_named(str(values.get("account", "aitne"))) is None


QUESTIONS = (
    Question(
        "scheduler",
        "Scheduler (slurm, or local: this machine alone)",
        lambda values: "slurm" if shutil.which("scontrol") else "local",
    ),
    Question("cluster", "Name of the cluster"),
    Question(
        "portal_url", "URL of the portal in browsers", lambda values: f"https://{socket.getfqdn()}"
    ),
    Question(
        "sessions_url", "URL of the sessions in browsers, such as https://*.aitne-sessions.org"
    ),
    Question(
        "proxy.server", "Reverse proxy on this machine (nginx, caddy, none)", _server, _secure
    ),
    Question(
        "certificates.source",
        "Certificates (files, acme: by Caddy, platform: the platform's own CA)",
        _certificates,
        _secure,
    ),
    Question("certificates.portal", "Certificate of the portal (PEM file)", put=_source("files")),
    Question("certificates.portal_key", "Key of that certificate", put=_source("files")),
    Question(
        "certificates.sessions",
        "Certificate of the sessions' origin (empty: the same)",
        put=_source("files"),
        optional=True,
    ),
    Question("certificates.sessions", "Certificate of the sessions' origin", put=_source("acme")),
    Question(
        "certificates.sessions_key",
        "Key of that certificate",
        put=lambda values: values.get("certificates.sessions") is not None,
    ),
    Question(
        "certificates.email",
        "E-mail address for the ACME server",
        put=_source("acme"),
        optional=True,
    ),
    Question("bind", "Address on which portal and sessions listen", _bind),
    Question(
        "slurm.software_dir",
        "Folder of root's that all nodes share",
        lambda values: "/srv/aitne/software",
        _slurm,
    ),
    Question("slurm.portal_address", "URL of the portal as nodes reach it", _address(0), _slurm),
    Question(
        "slurm.sessions_address", "URL of the sessions as nodes reach it", _address(1), _slurm
    ),
    Question("slurm.rest_url", "URL of slurmrestd (empty: none)", put=_slurm, optional=True),
    Question(
        "slurm.jwt_key",
        "Key of auth/jwt (empty: none)",
        put=lambda values: str(values.get("slurm.rest_url", "")).startswith("http"),
        optional=True,
    ),
    Question(
        "slurm.test_user",
        "User for a test job of one second on a node (empty: no test)",
        put=_slurm,
        optional=True,
    ),
    Question(
        "database",
        "URL of a PostgreSQL database (empty: SQLite in the data directory)",
        optional=True,
    ),
    Question("account", "Unix account of the platform's own processes", lambda values: "aitne"),
    Question(
        "create_account",
        "That account does not exist. Create it?",
        lambda values: False,
        _no_account,
    ),
    Question(
        "slurm.create_operator",
        "Give it Slurm's operator level if it has none?",
        lambda values: False,
        _slurm,
    ),
    Question("enable", "Enable and start the units now?", lambda values: False),
)


def inspected_defaults() -> Values:
    """Return the answers that follow from this machine, for questions and without a question."""
    low, high = machine.uid_range()
    values: Values = {"accounts.min_uid": low, "accounts.max_uid": high}
    programs = Path(sys.executable).parent
    if (programs / "aitne").exists():
        values["programs"] = str(programs)
    slurm = slurm_defaults()
    values["cluster"] = slurm.get("cluster", "local")
    if "jwt_key" in slurm:
        values["slurm.jwt_key"] = slurm["jwt_key"]
    values["proxy.group"] = machine.proxy_group()
    return values


def flat(values: Mapping[str, Any]) -> Values:
    """Return nested answers by their dotted names; `settings` remains one answer."""
    answers: Values = {}
    for name, value in values.items():
        if isinstance(value, dict) and name != "settings":
            answers |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            answers[name] = value
    return answers


def nested(answers: Values) -> dict[str, Any]:
    """Return answers by their dotted names as the nested content of a file of answers."""
    values: dict[str, Any] = {}
    for name, value in answers.items():
        section, _, key = name.rpartition(".")
        target = values.setdefault(section, {}) if section else values
        target[key] = value
    return values


def problem_of(field: str, answers: Values) -> str | None:
    """Return what is wrong with the answer ``field``, given the earlier ones; None: it is valid."""
    values = nested({**_REQUIRED, **answers})
    try:
        complete = Answers.model_validate(values)
    except ValidationError as error:
        for part in error.errors():
            if f"{'.'.join(map(str, part['loc']))}.".startswith(f"{field}."):
                return explain(part)
        return None
    problems = (problem for problem in contradictions(complete) if problem.field == field)
    return next((problem.message for problem in problems), None)
