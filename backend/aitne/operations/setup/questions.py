"""Questions of ``aitne admin setup`` at a terminal: their order, defaults, and checks of single answers.

Text, type and default of a question are those of the field of ``Answers`` that it asks for.
"""

from __future__ import annotations

import shutil
import socket
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from aitne.core.validation import explain
from aitne.operations.setup import machine
from aitne.operations.setup.answers import Answers, contradictions
from aitne.operations.setup.checks import account_named
from aitne.operations.setup.slurm import defaults as slurm_defaults

Values = dict[str, Any]
"""Answers by dotted name, such as ``slurm.software_dir``."""
_REQUIRED = {
    "scheduler": "local",
    "public_url": "http://localhost:8000",
    "sessions_url": "http://localhost:8001",
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question for the field ``name`` of the answers."""

    name: str
    suggested: Callable[[Values], str | None] = lambda values: None
    """Return the default that follows from this machine and the earlier answers; None: the field's."""
    is_put: Callable[[Values], bool] = lambda values: True
    is_required: bool = False
    """True if an answer is needed although the field itself has a default."""

    @property
    def field(self) -> FieldInfo:
        """The field that the answer is for."""
        model: type[BaseModel] = Answers
        *sections, name = self.name.split(".")
        for section in sections:
            annotation = model.model_fields[section].annotation
            assert isinstance(annotation, type)  # noqa: S101 - the section is a model
            model = annotation
        return model.model_fields[name]

    @property
    def text(self) -> str:
        """The question itself: the field's name and its description."""
        return f"{self.name}: {(self.field.description or '').rstrip('.')}"

    @property
    def is_optional(self) -> bool:
        """True if an empty answer means that there is none."""
        annotation = self.field.annotation
        is_union = get_origin(annotation) in (Union, types.UnionType)
        return not self.is_required and is_union and type(None) in get_args(annotation)

    def default(self, values: Values) -> Any:
        """Return the default answer, given the earlier answers; None: there is none."""
        suggested = self.suggested(values)
        if suggested is not None:
            return suggested
        default = self.field.get_default(call_default_factory=True, validated_data={})
        if default is PydanticUndefined:
            return None
        return str(default) if isinstance(default, Path) else default


def _secure(values: Values) -> bool:
    return str(values.get("public_url", "")).startswith("https:")


def _slurm(values: Values) -> bool:
    return values.get("scheduler") == "slurm"


def _source(*sources: str) -> Callable[[Values], bool]:
    return lambda values: values.get("certificates.source") in sources


def _has_certificates(values: Values) -> bool:
    return _secure(values) and values.get("proxy.server") != "other"


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


def _scheduler(values: Values) -> str:
    return "slurm" if shutil.which("scontrol") else "local"


def _no_account(values: Values) -> bool:
    return account_named(str(values.get("account", "aitne"))) is None


QUESTIONS = (
    Question("scheduler", _scheduler),
    Question("cluster"),
    Question("public_url", lambda values: f"https://{socket.getfqdn()}"),
    Question("sessions_url"),
    Question("proxy.server", _server, _secure),
    Question("certificates.source", _certificates, _has_certificates),
    Question("certificates.portal", is_put=_source("files"), is_required=True),
    Question("certificates.portal_key", is_put=_source("files"), is_required=True),
    Question("certificates.sessions", is_put=_source("files")),
    Question("certificates.sessions", is_put=_source("acme"), is_required=True),
    Question(
        "certificates.sessions_key",
        is_put=lambda values: values.get("certificates.sessions") is not None,
        is_required=True,
    ),
    Question("certificates.email", is_put=_source("acme")),
    Question("bind", _bind),
    Question("slurm.software_dir", is_put=_slurm),
    Question("slurm.portal_address", _address(0), _slurm, is_required=True),
    Question("slurm.sessions_address", _address(1), _slurm, is_required=True),
    Question("slurm.rest_url", is_put=_slurm),
    Question(
        "slurm.jwt_key",
        is_put=lambda values: str(values.get("slurm.rest_url", "")).startswith("http"),
    ),
    Question("slurm.test_user", is_put=_slurm),
    Question("database"),
    Question("account"),
    Question("create_account", is_put=_no_account),
    Question("slurm.create_operator", is_put=_slurm),
    Question("enable"),
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
    """Return nested answers by their dotted names, which have two parts at most."""
    answers: Values = {}
    for name, value in values.items():
        if isinstance(value, dict):
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
