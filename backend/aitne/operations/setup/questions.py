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

from aitne.core.validation_messages import explain_error
from aitne.operations.setup import machine_inspection
from aitne.operations.setup.answers import Answers, list_contradictions
from aitne.operations.setup.check_results import find_account
from aitne.operations.setup.slurm_inspection import find_defaults as slurm_defaults

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

    def get_default(self, values: Values) -> Any:
        """Return the default answer, given the earlier answers; None: there is none."""
        suggested = self.suggested(values)
        if suggested is not None:
            return suggested
        default = self.field.get_default(call_default_factory=True, validated_data={})
        if default is PydanticUndefined:
            return None
        return str(default) if isinstance(default, Path) else default


def _is_https(values: Values) -> bool:
    return str(values.get("public_url", "")).startswith("https:")


def _is_slurm_chosen(values: Values) -> bool:
    return values.get("scheduler") == "slurm"


def _make_source_condition(*sources: str) -> Callable[[Values], bool]:
    return lambda values: values.get("certificates.source") in sources


def _has_certificates(values: Values) -> bool:
    return _is_https(values) and values.get("proxy.server") != "other"


def _find_default_server(values: Values) -> str:
    return next((name for name in ("nginx", "caddy") if shutil.which(name)), "nginx")


def _get_default_certificate_source(values: Values) -> str:
    return {"nginx": "files", "caddy": "acme"}.get(values.get("proxy.server", ""), "platform")


def _make_url_default(offset: int) -> Callable[[Values], str]:
    def get_default_url(values: Values) -> str:
        tls = _is_https(values) and values.get("proxy.server", "none") == "none"
        port = int(values.get("port", 8_000)) + offset
        return f"http{'s' if tls else ''}://{socket.getfqdn()}:{port}"

    return get_default_url


def _get_default_bind(values: Values) -> str:
    local = values.get("scheduler") == "local" and values.get("proxy.server", "none") != "none"
    return "127.0.0.1" if local else "0.0.0.0"  # noqa: S104 - nodes or browsers must reach it


def _find_default_scheduler(values: Values) -> str:
    return "slurm" if shutil.which("scontrol") else "local"


def _is_account_missing(values: Values) -> bool:
    return find_account(str(values.get("account", "aitne"))) is None


QUESTIONS = (
    Question("scheduler", _find_default_scheduler),
    Question("cluster"),
    Question("public_url", lambda values: f"https://{socket.getfqdn()}"),
    Question("sessions_url"),
    Question("proxy.server", _find_default_server, _is_https),
    Question("certificates.source", _get_default_certificate_source, _has_certificates),
    Question("certificates.portal", is_put=_make_source_condition("files"), is_required=True),
    Question("certificates.portal_key", is_put=_make_source_condition("files"), is_required=True),
    Question("certificates.sessions", is_put=_make_source_condition("files")),
    Question("certificates.sessions", is_put=_make_source_condition("acme"), is_required=True),
    Question(
        "certificates.sessions_key",
        is_put=lambda values: values.get("certificates.sessions") is not None,
        is_required=True,
    ),
    Question("certificates.email", is_put=_make_source_condition("acme")),
    Question("bind", _get_default_bind),
    Question("slurm.software_dir", is_put=_is_slurm_chosen),
    Question("slurm.portal_address", _make_url_default(0), _is_slurm_chosen, is_required=True),
    Question("slurm.sessions_address", _make_url_default(1), _is_slurm_chosen, is_required=True),
    Question("slurm.rest_url", is_put=_is_slurm_chosen),
    Question(
        "slurm.jwt_key",
        is_put=lambda values: str(values.get("slurm.rest_url", "")).startswith("http"),
    ),
    Question("slurm.test_user", is_put=_is_slurm_chosen),
    Question("database"),
    Question("account"),
    Question("create_account", is_put=_is_account_missing),
    Question("slurm.create_operator", is_put=_is_slurm_chosen),
    Question("enable"),
)


def find_inspected_defaults() -> Values:
    """Return the answers that follow from this machine, for questions and without a question."""
    low, high = machine_inspection.read_uid_range()
    values: Values = {"accounts.min_uid": low, "accounts.max_uid": high}
    programs = Path(sys.executable).parent
    if (programs / "aitne").exists():
        values["programs"] = str(programs)
    slurm = slurm_defaults()
    values["cluster"] = slurm.get("cluster", "local")
    if "jwt_key" in slurm:
        values["slurm.jwt_key"] = slurm["jwt_key"]
    values["proxy.group"] = machine_inspection.find_proxy_group()
    return values


def flatten_answers(values: Mapping[str, Any]) -> Values:
    """Return nested answers by their dotted names, which have two parts at most."""
    answers: Values = {}
    for name, value in values.items():
        if isinstance(value, dict):
            answers |= {f"{name}.{key}": item for key, item in value.items()}
        else:
            answers[name] = value
    return answers


def nest_answers(answers: Values) -> dict[str, Any]:
    """Return answers by their dotted names as the nested content of a file of answers."""
    values: dict[str, Any] = {}
    for name, value in answers.items():
        section, _, key = name.rpartition(".")
        target = values.setdefault(section, {}) if section else values
        target[key] = value
    return values


def find_problem(field: str, answers: Values) -> str | None:
    """Return what is wrong with the answer ``field``, given the earlier ones; None: it is valid."""
    values = nest_answers({**_REQUIRED, **answers})
    try:
        complete = Answers.model_validate(values)
    except ValidationError as error:
        for part in error.errors():
            if f"{'.'.join(map(str, part['loc']))}.".startswith(f"{field}."):
                return explain_error(part)
        return None
    problems = (problem for problem in list_contradictions(complete) if problem.field == field)
    return next((problem.message for problem in problems), None)
