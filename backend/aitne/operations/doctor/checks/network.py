"""Checks of names, certificates and reachability."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from aitne.adapters.presented_certificate import fetch_server_certificate
from aitne.core.errors import Unavailable
from aitne.core.sessions.host_names import WILDCARD
from aitne.core.users.auth_settings import is_loopback
from aitne.operations.doctor import web_requests
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.dns_and_certificates import (
    ANY_USER,
    check_certificates,
    check_names,
    list_urls,
)
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.services.platform.certificate_authorities import (
    check_provided_certificates,
    get_certificate_names,
    is_valid_for_host,
)
from aitne.supervisor import start_checks

EXPIRES_SOON = timedelta(days=30)


@check("dns", Subject.NETWORK, "The names of the portal and of the sessions resolve.")
def check_host_names(host: CheckedHost) -> Finding:
    """Check that the host names of both origins have addresses, as this machine sees them."""
    return check_names(list_urls(host.settings))


@check("portal-certificate", Subject.NETWORK, "Browsers accept the certificate of the portal.")
def portal_certificate(host: CheckedHost) -> Finding:
    """Check the certificate that the portal's address presents: chain, names and expiry."""
    return _check_presented_certificate(host, host.settings.portal_url, [])


@check(
    "sessions-certificate",
    Subject.NETWORK,
    "Browsers accept the certificate of the sessions' origin.",
)
def sessions_certificate(host: CheckedHost) -> Finding:
    """Check the certificate of the sessions' origin, with a host for each user if there is one."""
    settings = host.settings
    wildcard = settings.sessions_base.replace(WILDCARD, ANY_USER, 1)
    further = [urlsplit(wildcard).hostname or ""] if settings.has_user_domains else []
    return _check_presented_certificate(host, settings.sessions_origin, further)


def _check_presented_certificate(host: CheckedHost, url: str, further_names: list[str]) -> Finding:
    parts = urlsplit(url)
    name = parts.hostname or ""
    if parts.scheme != "https":
        if is_loopback(name) or is_loopback(host.settings.bind):
            return make_skipped_finding(f"{url} is reached without TLS, from this machine only.")
        return make_warning_finding(
            f"{url} is reached without TLS: passwords and notebooks cross the network unencrypted.",
            "Enable [tls] (docs/howto/tls.md), or serve it through a reverse proxy with a certificate.",
        )
    port = parts.port or 443
    try:
        certificate = fetch_server_certificate(name, port, within_s=web_requests.WITHIN_S)
        problem = next(
            (
                text
                for each in (name, *further_names)
                if (
                    text := web_requests.verification_error(
                        name, port, each, host.make_trust_context()
                    )
                )
                is not None
            ),
            None,
        )
    except (Unavailable, web_requests.NoAnswer) as error:
        if not host.is_running:
            return make_unknown_finding(
                f"There is no answer while the platform is not running: {error}"
            )
        return make_failed_finding(
            f"There is no answer: {error}",
            "Start the reverse proxy, or open the port in the firewall.",
        )
    now, ends = datetime.now(UTC), certificate.not_valid_after_utc
    renew = "Renew it, and let a timer do so from now on (docs/howto/tls.md)."
    if ends <= now:
        return make_failed_finding(f"The certificate of {name} expired on {ends:%Y-%m-%d}.", renew)
    wrong = [
        each
        for each in (name, *further_names)
        if not is_valid_for_host(get_certificate_names(certificate), each)
    ]
    if wrong:
        shown = ", ".join(each.replace(ANY_USER, WILDCARD, 1) for each in wrong)
        return make_failed_finding(
            f"The certificate of {name} is for {', '.join(sorted(get_certificate_names(certificate)))}, not for {shown}.",
            "Get one with these names; a host for each user needs a wildcard (docs/howto/tls.md).",
        )
    if problem is not None:
        return make_failed_finding(
            f"Clients do not accept the certificate of {name}: {problem}.",
            "Serve it with its intermediate certificates, from a CA that the browsers trust.",
        )
    if ends - now < min(EXPIRES_SOON, (ends - certificate.not_valid_before_utc) / 3):
        return make_warning_finding(f"The certificate of {name} expires on {ends:%Y-%m-%d}.", renew)
    return make_ok_finding(f"The certificate of {name} is valid until {ends:%Y-%m-%d}.")


@check("certificates", Subject.NETWORK, "No certificate of the platform's processes expires soon.")
async def check_certificate_expiry(host: CheckedHost) -> Finding:
    """Check the expiry of the certificates in files, as the health page does."""
    if not host.settings.tls.enabled:
        return make_skipped_finding("The platform's processes have none.")
    return await host.check_health("certificates")


@check(
    "certificate-files", Subject.NETWORK, "The certificates in [tls] have the right names and keys."
)
def certificate_files(host: CheckedHost) -> Finding:
    """Check the certificates that the settings name."""
    if host.settings.tls.certificate is None:
        return make_skipped_finding("The settings name no certificate of the site.")
    return check_certificates(lambda: check_provided_certificates(host.settings), "[tls]")


@check(
    "public-address",
    Subject.NETWORK,
    "The portal answers at its public address.",
    needs_platform=True,
)
def public_address(host: CheckedHost) -> Finding:
    """Check the portal as browsers reach it."""
    return _check_answer(
        host, host.settings.portal_url, "Browsers", "the reverse proxy and `public_url`"
    )


@check(
    "nodes-address",
    Subject.NETWORK,
    "The portal answers at the address for nodes.",
    needs_platform=True,
)
def nodes_address(host: CheckedHost) -> Finding:
    """Check the portal as agents on nodes reach it, from here; the check `node-portal` asks from there."""
    if not host.has_slurm:
        return make_skipped_finding("Jobs run on this machine.")
    for note in start_checks.list_unreachable_notes(host.settings):
        return make_failed_finding(
            note, "Set `bind`, or have a proxy forward the connections of nodes."
        )
    return _check_answer(host, host.settings.agents_url, "Agents", "`slurm.portal_address`")


def _check_answer(host: CheckedHost, url: str, who: str, where: str) -> Finding:
    try:
        response = web_requests.fetch_url(f"{url}/healthz", context=host.make_trust_context())
    except web_requests.NoAnswer as error:
        return make_failed_finding(
            f"{who} do not reach the portal: {error}", f"Check {where}, DNS and the firewall."
        )
    if response.status != 200 or b'"ok"' not in response.body:
        return make_failed_finding(
            f"{url}/healthz answers {response.status}, but not as the portal does.",
            f"Another service has this address: correct {where}.",
        )
    return make_ok_finding(f"The portal answers at {url}.")


@check("proxy-socket", Subject.NETWORK, "A reverse proxy passes on the addresses of browsers.")
def proxy_socket(host: CheckedHost) -> Finding:
    """Check that client addresses are known, by which failed logins are limited."""
    for note in start_checks.list_reverse_proxy_notes(host.settings):
        return make_warning_finding(note, "Set `proxy_socket` (docs/howto/reverse-proxy.md).")
    return make_ok_finding("Each browser is known by its own address.")
