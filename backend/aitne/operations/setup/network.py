"""Inspection of what the platform needs beyond files: DNS, certificates and the database."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from aitne.core.errors import SetupError, StoreUnavailable
from aitne.core.models.check import CheckResult, CheckState
from aitne.core.sessions.hosts import WILDCARD
from aitne.core.users.settings import is_loopback
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.checks import account_named, check, command
from aitne.services.platform.certificates import CertificateFiles, check_certificate

OK, WARNING, FAILED = CheckState.OK, CheckState.WARNING, CheckState.FAILED
UNKNOWN, SKIPPED = CheckState.UNKNOWN, CheckState.SKIPPED
_PROBE_LABEL = "aitne-setup-check"
_DNS_WITHIN_S = 10.0
_DATABASE_WITHIN_S = 20.0


def checks(answers: Answers) -> Iterator[CheckResult]:
    """Yield the results of all checks. Nothing is changed."""
    yield from _names(answers)
    yield from _port_of_urls(answers)
    yield from _certificates(answers)
    yield _database(answers)


def _names(answers: Answers) -> Iterator[CheckResult]:
    names = [answers.portal_host, answers.sessions_host]
    if WILDCARD in answers.sessions_url:
        names.append(f"{_PROBE_LABEL}.{answers.sessions_host}")
    for name in dict.fromkeys(names):
        shown = name.replace(_PROBE_LABEL, "*", 1)
        if is_loopback(name) or name.endswith(".localhost"):
            yield check("dns", OK, f"{shown} is this machine.")
            continue
        answer = command(["getent", "ahosts", name], within_s=_DNS_WITHIN_S)
        addresses = sorted({line.split()[0] for line in answer.output.splitlines() if line})
        if answer.succeeded and addresses:
            yield check("dns", OK, f"{shown} has the address {', '.join(addresses)}.")
        else:
            yield check(
                "dns",
                WARNING,
                f"{shown} has no address"
                + (": the name server did not answer in time." if answer.status is None else "."),
                f"Create an address record for {shown} (docs/howto/session-domains.md).",
            )


def _port_of_urls(answers: Answers) -> Iterator[CheckResult]:
    """Yield a warning for each URL with another port than the platform's, which listens itself."""
    if answers.proxy.server != "none":
        return
    for name, url, port in (
        ("portal_url", answers.portal_url, answers.port),
        ("sessions_url", answers.sessions_url, answers.port + 1),
    ):
        parts = urlsplit(url.replace(WILDCARD, "", 1))
        used = parts.port or (443 if parts.scheme == "https" else 80)
        if used != port:
            yield check(
                name,
                WARNING,
                f"Browsers connect to port {used} for {url}, and the platform listens on {port}.",
                f"Append :{port} to {name}, choose a reverse proxy, or forward the port.",
            )


def _certificates(answers: Answers) -> Iterator[CheckResult]:
    source = answers.certificates.source
    if source == "none":
        state = OK if is_loopback(answers.portal_host) else WARNING
        yield check(
            "certificates",
            state,
            "Browsers reach the platform by http, which anyone in the network can read.",
            None if state is OK else "Choose https with certificates (docs/howto/tls.md).",
        )
    elif source == "platform":
        yield check(
            "certificates",
            OK,
            "The platform's own CA issues the certificates; browsers must trust it (docs/howto/tls.md).",
        )
    for name, paths, hosts in (
        ("portal", answers.portal_files, (answers.portal_host,)),
        ("sessions", answers.sessions_files, answers.session_hosts),
    ):
        if paths is not None:
            files = CertificateFiles(*map(Path, paths))
            yield _certificate(answers, f"certificates.{name}", files, hosts)


def _certificate(
    answers: Answers, name: str, files: CertificateFiles, hosts: tuple[str, ...]
) -> CheckResult:
    paths = (files.certificate, files.key)
    for path in paths:
        if os.geteuid() != 0 and not os.access(path, os.R_OK) and _exists(path):
            return check(
                name, UNKNOWN, f"{path} cannot be read by this account.", "Run it as root."
            )
    try:
        check_certificate(files, hosts, section="[certificates]")
    except SetupError as error:
        return check(
            name, FAILED, error.message, "Correct the paths, or get a certificate for all names."
        )
    account = account_named(answers.account)
    if answers.proxy.server == "none" and account is not None and os.geteuid() == 0:
        for path in paths:
            if not command(["test", "-r", str(path)], account=account).succeeded:
                return check(
                    name,
                    FAILED,
                    f"{answers.account}, which serves TLS, cannot read {path}.",
                    f"`chgrp {answers.account} {path}; chmod g+r {path}`",
                )
    return check(name, OK, f"{files.certificate} is valid for {', '.join(hosts)}.")


def _exists(path: Path) -> bool:
    """Return True if the file exists, or may exist in a folder that is closed to this account."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    return True


def _database(answers: Answers) -> CheckResult:
    if answers.database is None:
        return check("database", OK, "SQLite in the data directory, for one portal machine.")
    account = account_named(answers.account)
    if account is None:
        return check(
            "database",
            UNKNOWN,
            f"The database is reached as {answers.account}, which does not exist yet.",
            "Run this command again after the account was created.",
        )
    if os.geteuid() not in (0, account.pw_uid):
        return check(
            "database",
            UNKNOWN,
            f"Only root can connect to the database as {answers.account}.",
            "Run it as root.",
        )
    # As the account itself: PostgreSQL may recognize the account by the UNIX socket.
    answer = command(
        [sys.executable, "-P", "-m", __name__],
        account=account,
        stdin=answers.database,
        within_s=_DATABASE_WITHIN_S,
    )
    if answer.succeeded:
        return check("database", OK, answer.output.strip())
    lines = answer.error.splitlines()
    return check(
        "database",
        FAILED,
        lines[-1] if lines else "The database does not answer.",
        "Correct the answer database, or create user and database: `createuser USER; createdb -O USER NAME`.",
    )


def main() -> int:
    """Connect to the database whose URL is on standard input and print its release."""
    # Only this process needs the database's driver.
    from aitne.adapters.store.probe import probe

    try:
        sys.stdout.write(asyncio.run(probe(sys.stdin.read())))
    except (SetupError, StoreUnavailable) as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
