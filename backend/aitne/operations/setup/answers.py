"""Answers of the administrator to the questions of ``aitne admin setup``, and their checks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.base import LARGEST_UID, Strict
from aitne.core.sessions.hosts import WILDCARD, check_wildcard
from aitne.core.validation import allowed_by, message_of

MOST_BYTES = 1 << 20
MOST_URL = 300
"""Maximum number of characters of a URL."""
_LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_URL = re.compile(rf"https?://(?:{_LABEL}\.)*{_LABEL}(?::[0-9]{{1,5}})?")
_ACCOUNT = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"


def _path(value: str) -> str:
    # The paths are written to units and to the proxy's configuration, where other characters have a meaning.
    allowed = all(char.isalnum() or char in "/._+-" for char in value)
    if not value.startswith("/") or not allowed or ".." in Path(value).parts:
        raise ValueError("must be an absolute path of letters, digits and . _ + - /")
    return value.rstrip("/") or "/"


def _url(value: str) -> str:
    if len(value) > MOST_URL or _URL.fullmatch(value) is None:
        raise ValueError(
            "must be http:// or https:// and a host, such as https://aitne.example.org"
        )
    return value


def _sessions_url(value: str) -> str:
    if len(value) > MOST_URL or _URL.fullmatch(value.replace(f"//{WILDCARD}", "//", 1)) is None:
        raise ValueError(
            "must be http:// or https:// and a host, with a host for each user such as "
            "https://*.aitne-sessions.org"
        )
    return value


AbsolutePath = Annotated[str, AfterValidator(_path)]
Account = Annotated[str, Field(pattern=_ACCOUNT)]
Url = Annotated[str, AfterValidator(_url)]
SessionsUrl = Annotated[str, AfterValidator(_sessions_url)]


class StrictAnswers(Strict):
    """Base class of the answers: text is not converted to numbers or truth values."""

    model_config = ConfigDict(strict=True)


class SlurmAnswers(StrictAnswers):
    """The site's Slurm. Only with `scheduler = "slurm"`."""

    conf: AbsolutePath | None = Field(
        None, description="Path of slurm.conf; unset: Slurm's default."
    )
    rest_url: str | None = Field(
        None,
        pattern=r"^(https?://[^\s\"]+|unix:/[^\s\"]+)$",
        description="URL of slurmrestd; unset: only the commands are used.",
    )
    jwt_key: AbsolutePath | None = Field(None, description="Key of auth/jwt; only with `rest_url`.")
    operator: Account | None = Field(
        None, description="Account with the operator level that polls Slurm; unset: `account`."
    )
    create_operator: bool = Field(
        False, description="Give `operator` the operator level with sacctmgr if it has none."
    )
    jobs_dir: str = Field(
        "{home}/.aitne/jobs",
        pattern=r"^(\{home\}|/)[A-Za-z0-9/._+{}-]*$",
        description="Folder of a user's job folders, on a file system that all nodes share.",
    )
    software_dir: AbsolutePath = Field(
        "/srv/aitne/software", description="Folder of root's that all nodes share."
    )
    portal_address: Url | None = Field(
        None, description="URL of the portal as nodes reach it; unset: `portal_url`."
    )
    sessions_address: Url | None = Field(
        None, description="URL of the sessions' origin as nodes reach it; unset: `sessions_url`."
    )
    test_user: Account | None = Field(
        None,
        description="Account that runs a job of one second to check that a node sees `software_dir`; "
        "unset: not checked.",
    )


class AccountAnswers(StrictAnswers):
    """The Unix accounts that the jobs of users run as."""

    min_uid: int = Field(1_000, ge=1, le=LARGEST_UID, description="Lowest uid of a user's account.")
    max_uid: int = Field(
        60_000, ge=1, le=LARGEST_UID, description="Highest uid of a user's account."
    )
    groups: list[Account] = Field(
        default_factory=list, description="Only members of these groups; empty: all accounts."
    )


class ProxyAnswers(StrictAnswers):
    """The reverse proxy on this machine that serves both origins."""

    server: Literal["nginx", "caddy", "none"] = Field(
        "none", description="`nginx`, `caddy` or `none`."
    )
    group: Account = Field("www-data", description="Group of the reverse proxy's account.")


class CertificateAnswers(StrictAnswers):
    """Source of the certificates of both origins."""

    source: Literal["files", "acme", "platform", "none"] = Field(
        "none",
        description="`files`: of the site; `acme`: Caddy gets the portal's, the sessions' is a file; "
        "`platform`: the platform's own CA, without a reverse proxy; `none`: plain HTTP.",
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


class Answers(StrictAnswers):
    """All that `aitne admin setup` has to know; a file of answers has these fields."""

    scheduler: Literal["slurm", "local"] = Field(
        description="`slurm`: the site's Slurm; `local`: this machine alone, each user's jobs as the "
        "user's Unix account."
    )
    cluster: str = Field(
        "local", pattern=r"^[a-z][a-z0-9-]{0,39}$", description="The cluster's name."
    )
    portal_url: Url = Field(description="URL of the portal in browsers.")
    sessions_url: SessionsUrl = Field(
        description="URL of the sessions in browsers; `https://*.HOST` gives each user a host."
    )
    bind: str = Field(
        "127.0.0.1",
        pattern=r"^[0-9A-Fa-f.:]+$",
        description="Address on which portal and sessions listen; nodes of Slurm must reach it.",
    )
    port: int = Field(
        8_000, ge=1_024, le=65_531, description="The portal's port; the next four are used too."
    )
    database: str | None = Field(
        None,
        pattern=r"^postgres(ql)?://[^\s]*$",
        description="`postgresql://USER@HOST/NAME`; unset: SQLite in `data_dir`.",
    )
    account: Account = Field("aitne", description="Unix account of the platform's own processes.")
    create_account: bool = Field(False, description="Create `account` if it does not exist.")
    data_dir: AbsolutePath = Field("/var/lib/aitne", description="The data directory.")
    programs: AbsolutePath = Field(
        "/opt/aitne/bin", description="Folder with the programs aitne and aitne-broker."
    )
    enable: bool = Field(
        False, description="Enable and start the units, and restart those whose files changed."
    )
    slurm: SlurmAnswers = SlurmAnswers()
    accounts: AccountAnswers = AccountAnswers()
    proxy: ProxyAnswers = ProxyAnswers()
    certificates: CertificateAnswers = CertificateAnswers()
    settings: dict[str, Any] = Field(
        default_factory=dict,
        description="Further settings of aitne.toml, such as `[settings.mail]`.",
    )

    @property
    def operator(self) -> str:
        """Account that polls Slurm."""
        return self.slurm.operator or self.account

    @property
    def portal_host(self) -> str:
        """Host name of the portal."""
        return urlsplit(self.portal_url).hostname or ""

    @property
    def sessions_host(self) -> str:
        """Host name of the sessions' origin, without the wildcard."""
        return urlsplit(self.sessions_url.replace(WILDCARD, "", 1)).hostname or ""

    @property
    def session_hosts(self) -> tuple[str, ...]:
        """Names that the certificate of the sessions' origin must contain."""
        wildcard = (WILDCARD + self.sessions_host,) if WILDCARD in self.sessions_url else ()
        return (self.sessions_host, *wildcard)

    @property
    def portal_files(self) -> tuple[str, str] | None:
        """Paths of the portal's certificate and key; None: these are not files of the site."""
        certificates = self.certificates
        if certificates.portal is None or certificates.portal_key is None:
            return None
        return certificates.portal, certificates.portal_key

    @property
    def sessions_files(self) -> tuple[str, str] | None:
        """Paths of certificate and key of the sessions' origin; None: not files of the site."""
        certificates = self.certificates
        if certificates.sessions is None or certificates.sessions_key is None:
            return self.portal_files
        return certificates.sessions, certificates.sessions_key


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


def validate(values: Mapping[str, Any]) -> Answers:
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
                message_of(part),
                _shown(part["input"]),
                allowed_by(part),
            )
            for part in error.errors()
        ]
    else:
        problems = list(contradictions(answers))
        if not problems:
            return answers
    sentences = "; ".join(f"{problem.field} {problem.message}" for problem in problems)
    raise InvalidInput(f"The answers are wrong: {sentences}.", problems)


def contradictions(answers: Answers) -> Iterator[FieldProblem]:
    """Yield a problem for each answer that contradicts an earlier one, or that it lacks."""
    proxy, certificates = answers.proxy.server, answers.certificates
    secure = answers.portal_url.startswith("https:")
    if secure != answers.sessions_url.startswith("https:"):
        yield FieldProblem("sessions_url", "must begin like portal_url, with http:// or https://")
    elif answers.portal_url == answers.sessions_url:
        yield FieldProblem("sessions_url", "must not be portal_url: sessions need their own origin")
    else:
        try:
            check_wildcard(answers.sessions_url, answers.portal_url)
        except ValueError as error:
            yield FieldProblem("sessions_url", f"is not possible: {error}")
    if proxy != "none" and not secure:
        yield FieldProblem("proxy.server", "serves https only: begin both URLs with https://")
    if proxy != "none" and any(
        urlsplit(url.replace(WILDCARD, "", 1)).port
        for url in (answers.portal_url, answers.sessions_url)
    ):
        yield FieldProblem("proxy.server", "serves port 443: write both URLs without a port")
    yield from _certificate_problems(answers)
    if answers.scheduler == "local":
        if answers.slurm.model_fields_set:
            yield FieldProblem("slurm", 'is only for scheduler = "slurm": remove it')
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


def _certificate_problems(answers: Answers) -> Iterator[FieldProblem]:
    certificates = answers.certificates
    secure = answers.portal_url.startswith("https:")
    if secure and certificates.source == "none":
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


def _shown(value: object) -> str | None:
    """Return a single value for messages, without URLs that may contain a password."""
    if isinstance(value, bool | int | float | str) and "://" not in str(value):
        return str(value)
    return None
