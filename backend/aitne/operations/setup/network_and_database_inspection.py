"""Inspection of what the platform needs beyond files: DNS, certificates and the database."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from aitne.core.errors import SetupError, StoreUnavailable
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.core.users.auth_settings import is_loopback
from aitne.operations.requirements.dns_and_certificates import (
    check_certificates,
    check_names,
    list_urls,
)
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.check_results import (
    find_account,
    make_result,
    make_result_of_finding,
    run_command,
)
from aitne.services.platform.certificate_authorities import CertificateFiles, check_certificate

OK, WARNING, FAILED = CheckState.OK, CheckState.WARNING, CheckState.FAILED
UNKNOWN, SKIPPED = CheckState.UNKNOWN, CheckState.SKIPPED
_DATABASE_WITHIN_S = 20.0


def check_network(answers: Answers) -> Iterator[CheckResult]:
    """Yield the results of all checks. Nothing is changed."""
    yield make_result_of_finding("dns", check_names(list_urls(answers)), is_blocking=False)
    yield from _check_url_ports(answers)
    yield from _check_certificates(answers)
    yield _check_database(answers)


def _check_url_ports(answers: Answers) -> Iterator[CheckResult]:
    """Yield a warning for each URL with another port than the platform's, which listens itself."""
    if answers.has_proxy:
        return
    for name, url, port in (
        ("public_url", answers.public_url, answers.port),
        ("sessions_url", answers.sessions_origin, answers.port_of_sessions),
    ):
        parts = urlsplit(url)
        used = parts.port or (443 if parts.scheme == "https" else 80)
        if used != port:
            yield make_result(
                name,
                WARNING,
                f"Browsers connect to port {used} for {url}, and the platform listens on {port}.",
                f"Append :{port} to {name}, choose a reverse proxy, or forward the port.",
            )


def _check_certificates(answers: Answers) -> Iterator[CheckResult]:
    source = answers.certificates.source
    if answers.proxy.server == "other":
        yield make_result(
            "certificates",
            SKIPPED,
            "The reverse proxy of the site has the certificates.",
        )
    elif source == "none":
        state = OK if is_loopback(answers.portal_host) else WARNING
        yield make_result(
            "certificates",
            state,
            "Browsers reach the platform by http, which anyone in the network can read.",
            None if state is OK else "Choose https with certificates (docs/howto/tls.md).",
        )
    elif source == "platform":
        yield make_result(
            "certificates",
            OK,
            "The platform's own CA issues the certificates; browsers must trust it (docs/howto/tls.md).",
        )
    for name, paths, hosts in (
        ("portal", answers.portal_files, (answers.portal_host,)),
        ("sessions", answers.sessions_files, answers.session_hosts),
    ):
        if paths is not None:
            files = CertificateFiles(*paths)
            yield _check_certificate(answers, f"certificates.{name}", files, hosts)


def _check_certificate(
    answers: Answers, name: str, files: CertificateFiles, hosts: tuple[str, ...]
) -> CheckResult:
    paths = (files.certificate, files.key)
    for path in paths:
        if os.geteuid() != 0 and not os.access(path, os.R_OK) and _may_exist(path):
            return make_result(
                name, UNKNOWN, f"{path} cannot be read by this account.", "Run it as root."
            )
    found = check_certificates(
        lambda: check_certificate(files, hosts, section="[certificates]"), "[certificates]"
    )
    if found.state is not OK:
        return make_result_of_finding(name, found)
    account = find_account(answers.account)
    if not answers.has_proxy and account is not None and os.geteuid() == 0:
        for path in paths:
            if not run_command(["test", "-r", str(path)], account=account).has_succeeded:
                return make_result(
                    name,
                    FAILED,
                    f"{answers.account}, which serves TLS, cannot read {path}.",
                    f"`chgrp {answers.account} {path}; chmod g+r {path}`",
                )
    return make_result(name, OK, f"{files.certificate} is valid for {', '.join(hosts)}.")


def _may_exist(path: Path) -> bool:
    """Return True if the file exists, or may exist in a folder that is closed to this account."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    return True


def _check_database(answers: Answers) -> CheckResult:
    if answers.database is None:
        return make_result("database", OK, "SQLite in the data directory, for one portal machine.")
    account = find_account(answers.account)
    if account is None:
        return make_result(
            "database",
            UNKNOWN,
            f"The database is reached as {answers.account}, which does not exist yet.",
            "Run this command again after the account was created.",
        )
    if os.geteuid() not in (0, account.pw_uid):
        return make_result(
            "database",
            UNKNOWN,
            f"Only root can connect to the database as {answers.account}.",
            "Run it as root.",
        )
    # As the account itself: PostgreSQL may recognize the account by the UNIX socket.
    answer = run_command(
        [sys.executable, "-P", "-m", __name__],
        account=account,
        stdin=answers.database,
        within_s=_DATABASE_WITHIN_S,
    )
    if answer.has_succeeded:
        return make_result("database", OK, answer.output.strip())
    lines = answer.error.splitlines()
    return make_result(
        "database",
        FAILED,
        lines[-1] if lines else "The database does not answer.",
        "Correct the answer database, or create user and database: `createuser USER; createdb -O USER NAME`.",
    )


def main() -> int:
    """Connect to the database whose URL is on standard input and print its release."""
    # Only this process needs the database's driver.
    from aitne.store.postgres_probe import probe_postgres

    try:
        sys.stdout.write(asyncio.run(probe_postgres(sys.stdin.read())))
    except (SetupError, StoreUnavailable) as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
