"""Answers of the administrator to the questions of ``aitne admin setup``, and their checks."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from aitne.broker.config import BrokerOptions
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.base import Seconds, Strict
from aitne.core.sessions.host_names import WILDCARD, check_wildcard_url
from aitne.core.settings import BrokerClientSettings, Settings
from aitne.core.validation_messages import describe_allowed_values, describe_error

MOST_BYTES = 1 << 20
MOST_URL = 300
"""Maximum number of characters of a URL."""
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_URL = re.compile(rf"https?://(?:{_LABEL}\.)*{_LABEL}(?::[0-9]{{1,5}})?")
_ACCOUNT = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"
_UNPRIVILEGED_PORT = 1_024
"""Lowest port on which a process that is not root's may listen."""


def _check_path(value: Path) -> Path:
    # The paths are written to units and to the proxy's configuration, where other characters have a meaning.
    allowed = all(char.isalnum() or char in "/._+-" for char in str(value))
    if not value.is_absolute() or not allowed or ".." in value.parts:
        raise ValueError("must be an absolute path of letters, digits and . _ + - /")
    return value


AbsolutePath = Annotated[Path, AfterValidator(_check_path)]
Account = Annotated[str, Field(pattern=_ACCOUNT)]


def _describe_field(name: str) -> Any:
    """Return a required field with the description that the setting ``name`` has."""
    description = Settings.model_fields[name].description or ""
    return Field(description=f"{description.partition('; unset:')[0].rstrip('.')}.")


class SlurmAnswers(SlurmSettings):
    """Further answers about the site's Slurm. Only with `scheduler = "slurm"`."""

    software_dir: AbsolutePath = Field(
        Path("/srv/aitne/software"),
        description="Folder of root's in which all nodes find the agent and the session environment.",
    )
    create_operator: bool = Field(
        False,
        strict=True,
        description="Give `operator` the operator level with sacctmgr if it has none.",
    )
    test_user: Account | None = Field(
        None,
        description="Account that runs a job of one second to check that a node sees `software_dir`; "
        "unset: not checked.",
    )


class BrokerAnswers(BrokerClientSettings, BrokerOptions):
    """Further answers about the broker. Only with `scheduler = "slurm"`."""

    max_duration: Seconds | None = Field(
        None,
        description="Longest time limit of a job that the broker permits; unset: `limits.max_duration`.",
    )


class ProxyAnswers(Strict):
    """The reverse proxy on this machine that serves both origins."""

    server: Literal["nginx", "caddy", "other", "none"] = Field(
        "none",
        description="`nginx`, `caddy`, `other` (one whose configuration the site writes itself) or "
        "`none`.",
    )
    group: Account = Field("www-data", description="Group of the reverse proxy's account.")


class CertificateAnswers(Strict):
    """Source of the certificates of both origins."""

    source: Literal["files", "acme", "platform", "none"] = Field(
        "none",
        description="`files`: of the site; `acme`: Caddy gets the portal's, the sessions' is a file; "
        "`platform`: the platform's own CA, without a reverse proxy; `none`: plain HTTP, or those of the "
        "`other` reverse proxy.",
    )
    portal: AbsolutePath | None = Field(None, description="The portal's certificate (PEM).")
    portal_key: AbsolutePath | None = Field(None, description="Key of `portal`.")
    sessions: AbsolutePath | None = Field(
        None, description="Certificate of the sessions' origin (PEM); unset: `portal` is for both."
    )
    sessions_key: AbsolutePath | None = Field(None, description="Key of `sessions`.")
    email: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+$",
        description="Address for messages of the ACME server.",
    )


class Answers(Settings):
    """All that ``aitne admin setup`` has to know: the settings of the platform, and what else is to be
    done on the machine.
    """

    scheduler: Literal["slurm", "local"] = Field(
        description="`slurm`: the site's Slurm; `local`: this machine alone, each user's jobs as the "
        "user's Unix account."
    )
    public_url: str = _describe_field("public_url")
    sessions_url: str = _describe_field("sessions_url")
    data_dir: AbsolutePath = Field(Path("/var/lib/aitne"), description="The data directory.")
    account: Account = Field("aitne", description="Unix account of the platform's own processes.")
    create_account: bool = Field(
        False, strict=True, description="Create `account` if it does not exist."
    )
    programs: AbsolutePath = Field(
        Path("/opt/aitne/bin"), description="Folder with the programs aitne and aitne-broker."
    )
    enable: bool = Field(
        False,
        strict=True,
        description="Enable and start the units, and restart those whose files changed.",
    )
    slurm: SlurmAnswers = SlurmAnswers()
    broker: BrokerAnswers = BrokerAnswers()
    proxy: ProxyAnswers = ProxyAnswers()
    certificates: CertificateAnswers = CertificateAnswers()

    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_given(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        answers = handler(values)
        answers._given = dict(values)
        return answers

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str) -> str:
        if len(value) > MOST_URL or _URL.fullmatch(value) is None:
            raise ValueError(
                "must be http:// or https:// and a host, such as https://aitne.example.org"
            )
        return value

    @field_validator("sessions_url")
    @classmethod
    def _check_sessions_url(cls, value: str, info: ValidationInfo) -> str:
        if len(value) > MOST_URL or _URL.fullmatch(value.replace(f"//{WILDCARD}", "//", 1)) is None:
            raise ValueError(
                "must be http:// or https:// and a host, with a host for each user such as "
                "https://*.aitne-sessions.org"
            )
        portal = info.data.get("public_url")
        if portal is None:
            return value
        if urlsplit(portal).scheme != urlsplit(value).scheme:
            raise ValueError("must begin like public_url, with http:// or https://")
        if portal == value:
            raise ValueError("must not be public_url: sessions need their own origin")
        try:
            check_wildcard_url(value, portal)
        except ValueError as error:
            raise ValueError(f"is not possible: {error}") from error
        return value

    @field_validator("bind")
    @classmethod
    def _check_bind_address(cls, value: str) -> str:
        try:
            ipaddress.ip_address(value)
        except ValueError as error:
            raise ValueError("must be an IP address of this machine, or 0.0.0.0") from error
        return value

    @field_validator("port")
    @classmethod
    def _check_port(cls, value: int) -> int:
        if value < _UNPRIVILEGED_PORT:
            raise ValueError(f"is too small (at least {_UNPRIVILEGED_PORT})")
        return value

    @field_validator("database")
    @classmethod
    def _check_database(cls, value: str | None) -> str | None:
        if value is not None and re.fullmatch(r"postgres(ql)?://\S*", value) is None:
            raise ValueError("must be postgresql://USER@HOST/NAME")
        return value

    @property
    def given(self) -> dict[str, Any]:
        """The answers as they were written, without defaults."""
        return self._given

    @property
    def given_settings(self) -> dict[str, Any]:
        """The answers of ``given`` that are settings of the platform."""
        return _select_known(Settings, self._given)

    @property
    def has_proxy(self) -> bool:
        """True if a reverse proxy on this machine serves both origins."""
        return self.proxy.server != "none"

    @property
    def operator(self) -> str:
        """Account that polls Slurm."""
        return self.slurm.operator or self.account

    @property
    def portal_host(self) -> str:
        """Host name of the portal."""
        return urlsplit(self.public_url).hostname or ""

    @property
    def sessions_host(self) -> str:
        """Host name of the sessions' origin, without the wildcard."""
        return urlsplit(self.sessions_origin).hostname or ""

    @property
    def session_hosts(self) -> tuple[str, ...]:
        """Names that the certificate of the sessions' origin must contain."""
        wildcard = (WILDCARD + self.sessions_host,) if self.has_user_domains else ()
        return (self.sessions_host, *wildcard)

    @property
    def portal_files(self) -> tuple[Path, Path] | None:
        """Paths of the portal's certificate and key; None: these are not files of the site."""
        certificates = self.certificates
        if certificates.portal is None or certificates.portal_key is None:
            return None
        return certificates.portal, certificates.portal_key

    @property
    def sessions_files(self) -> tuple[Path, Path] | None:
        """Paths of certificate and key of the sessions' origin; None: not files of the site."""
        certificates = self.certificates
        if certificates.sessions is None or certificates.sessions_key is None:
            return self.portal_files
        return certificates.sessions, certificates.sessions_key


def _select_known(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that ``model`` has fields for, sections likewise."""
    known = {}
    for name, value in values.items():
        if name in model.model_fields:
            section = model.model_fields[name].annotation
            if (
                isinstance(section, type)
                and issubclass(section, BaseModel)
                and isinstance(value, dict)
            ):
                known[name] = _select_known(section, value)
            else:
                known[name] = value
    return known


def read_answers(path: Path) -> dict[str, Any]:
    """Return the content of a file of answers: TOML, or YAML if its name ends in .yaml or .yml.

    Raises:
        InvalidInput: the file cannot be read or is not of that form.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"The answers {path} cannot be read: {error.strerror}.") from error
    if len(data) > MOST_BYTES:
        raise InvalidInput(f"The answers {path} are larger than 1 MiB.")
    kind = "YAML" if path.suffix in (".yaml", ".yml") else "TOML"
    try:
        text = data.decode("utf-8-sig")
        content = yaml.safe_load(text) if kind == "YAML" else tomllib.loads(text)
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidInput(f"The answers {path} are not {kind}: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInput(
            f"The answers {path} have no fields: write `scheduler: slurm` and so on."
        )
    return content


def validate_answers(values: Mapping[str, Any]) -> Answers:
    """Return the answers.

    Raises:
        InvalidInput: an answer is wrong, or two contradict each other; each is a problem.
    """
    try:
        answers = Answers.model_validate(values)
    except ValidationError as error:
        problems = [
            FieldProblem(
                ".".join(map(str, part["loc"])),
                describe_error(part),
                _format_value(part["input"]),
                describe_allowed_values(part),
            )
            for part in error.errors()
        ]
    else:
        problems = list(list_contradictions(answers))
        if not problems:
            return answers
    sentences = "; ".join(f"{problem.field} {problem.message}" for problem in problems)
    raise InvalidInput(f"The answers are wrong: {sentences}.", problems)


def list_contradictions(answers: Answers) -> Iterator[FieldProblem]:
    """Yield a problem for each answer that contradicts an earlier one, or that it lacks."""
    proxy, certificates = answers.proxy.server, answers.certificates
    if answers.has_proxy and not answers.public_url.startswith("https:"):
        yield FieldProblem("proxy.server", "serves https only: begin both URLs with https://")
    if proxy in ("nginx", "caddy") and any(
        urlsplit(url).port for url in (answers.public_url, answers.sessions_origin)
    ):
        yield FieldProblem("proxy.server", "serves port 443: write both URLs without a port")
    yield from _certificate_problems(answers)
    if answers.scheduler == "local":
        for section in ("slurm", "broker"):
            if section in answers.given:
                yield FieldProblem(section, 'is only for scheduler = "slurm": remove it')
    elif answers.slurm.jwt_key is not None and answers.slurm.rest_url is None:
        yield FieldProblem("slurm.jwt_key", "is only used with slurm.rest_url: set both or neither")
    if answers.accounts.min_uid > answers.accounts.max_uid:
        yield FieldProblem("accounts.max_uid", "must not be below accounts.min_uid")
    if certificates.source == "acme" and proxy != "caddy":
        yield FieldProblem("certificates.source", "acme is for the proxy caddy: use files")
    if certificates.source == "platform" and proxy != "none":
        yield FieldProblem(
            "certificates.source",
            "platform is without a reverse proxy: use files, or set proxy.server to none",
        )
    if certificates.source == "files" and proxy == "other":
        yield FieldProblem(
            "certificates.source", "must be none: the other reverse proxy has the certificates"
        )


def _certificate_problems(answers: Answers) -> Iterator[FieldProblem]:
    certificates = answers.certificates
    secure = answers.public_url.startswith("https:")
    if secure and certificates.source == "none" and answers.proxy.server != "other":
        yield FieldProblem("certificates.source", "none is for http:// only: https needs one")
    if not secure and certificates.source != "none":
        yield FieldProblem("certificates.source", "must be none with http://")
    for name in ("portal", "sessions"):
        certificate = getattr(certificates, name)
        key = getattr(certificates, f"{name}_key")
        if (certificate is None) != (key is None):
            missing = f"{name}_key" if key is None else name
            yield FieldProblem(f"certificates.{missing}", "is required: a certificate and its key")
    if certificates.source == "files" and certificates.portal is None:
        yield FieldProblem("certificates.portal", "is required with source = files")
    if certificates.source == "acme" and certificates.sessions is None:
        yield FieldProblem(
            "certificates.sessions", "is required: a wildcard is not issued without DNS challenge"
        )
    unused = {
        "acme": ("portal", "portal_key"),
        "files": ("email",),
        "platform": ("portal", "portal_key", "sessions", "sessions_key", "email"),
        "none": ("portal", "portal_key", "sessions", "sessions_key", "email"),
    }[certificates.source]
    for name in unused:
        if getattr(certificates, name) is not None:
            yield FieldProblem(
                f"certificates.{name}",
                f"is not used with source = {certificates.source}: remove it",
            )


def _format_value(value: object) -> str | None:
    """Return a single value for messages, without URLs that may contain a password."""
    if isinstance(value, bool | int | float | str) and "://" not in str(value):
        return str(value)
    return None
