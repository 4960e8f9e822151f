"""Webhooks: permitted destinations, secrets, and the signature that identifies the sender.

Receivers check it like ``verify_signature``; ``docs/reference/webhooks.md`` contains an independent program
for this.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from aitne.core.notifications.settings import WebhookSettings

SIGNATURE = "Aitne-Signature"
"""Name of the header with the signature: ``t=<Unix time>,v1=<hexadecimal HMAC-SHA256 of
"<t>.<body>">``.
"""
SECRET_KEY = "webhook_key"  # noqa: S105 - the name of the file that holds it
SECRET_PREFIX = "whsec_"  # noqa: S105
TOLERANCE_S = 300
"""Maximum age of a message in seconds that a receiver accepts, so that a recorded message cannot be
sent again later.
"""
LONGEST_URL = 2_000

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def derive_secret(key: str, webhook_id: str, generation: int) -> str:
    """Return the webhook's secret, which is derived from the platform's key and never stored;
    ``generation`` is the number of the secret.
    """
    text = f"webhook:{webhook_id}:{generation}".encode()
    digest = hmac.new(key.encode(), text, hashlib.sha256).digest()
    return SECRET_PREFIX + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def sign_body(secret: str, time: int, body: bytes) -> str:
    """Return the value of the signature header for a body sent at the Unix time ``time``."""
    return f"t={time},v1={_compute_digest(secret, time, body)}"


def verify_signature(secret: str, header: str, body: bytes, now: float) -> bool:
    """Return whether the body was signed with the secret at most ``TOLERANCE_S`` seconds before
    ``now`` (Unix time).
    """
    fields = dict(part.partition("=")[::2] for part in header.split(","))
    time, digest = fields.get("t", ""), fields.get("v1", "")
    if not (time.isascii() and time.isdecimal()) or abs(now - int(time)) > TOLERANCE_S:
        return False
    return hmac.compare_digest(_compute_digest(secret, int(time), body).encode(), digest.encode())


def _compute_digest(secret: str, time: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()


def check_url(text: str, settings: WebhookSettings) -> SplitResult:
    """Parse the URL of a webhook, check that this platform's settings permit it, and return the
    parsed URL. Host names are not resolved here.

    ``settings`` contains the hosts that may use plain HTTP and the private networks that webhooks
    may reach. Raises ``ValueError`` with the reason if the URL is not permitted.
    """
    if len(text) > LONGEST_URL or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"write it in ASCII without spaces, at most {LONGEST_URL} characters")
    url = urlsplit(text)
    host, port = url.hostname, url.port  # raises ValueError for an invalid port
    if url.scheme not in ("https", "http") or not host or port == 0:
        raise ValueError("it must begin with https:// and name a host")
    if url.username is not None or url.password is not None:
        raise ValueError(
            "it must not have a name and password; the signature identifies the sender"
        )
    if url.scheme == "http" and host not in settings.http_hosts:
        raise ValueError(
            "it must begin with https://; this site permits nothing else for this host"
        )
    address = _parse_literal_address(host)
    if address is not None and not is_permitted_address(address, settings.private_networks):
        raise ValueError(f"{host} is not a public address, and this site does not permit it")
    return url


def is_in_networks(address: IpAddress, networks: Sequence[str]) -> bool:
    """Return whether the IP address, or the IPv4 address that it contains, is in one of the
    networks.
    """
    inner = _extract_ipv4(address)
    parsed = [ipaddress.ip_network(network) for network in networks]
    return any(inner in network for network in parsed if network.version == inner.version)


def is_permitted_address(address: IpAddress, private_networks: Sequence[str]) -> bool:
    """Return whether webhooks may be sent to the IP address: it must be public, or in one of
    ``private_networks`` (from the platform's settings).
    """
    if is_in_networks(address, private_networks):
        return True
    inner = _extract_ipv4(address)
    if inner.version == 6 and inner.is_site_local:  # deprecated, and still routed by some sites
        return False
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def _parse_literal_address(host: str) -> IpAddress | None:
    if host == "localhost" or host.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _extract_ipv4(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that is embedded in an IPv6 address, in any notation; otherwise the
    address itself.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        for inner in (address.ipv4_mapped, address.sixtofour):
            if inner is not None:
                return inner
        if address.teredo is not None:
            return address.teredo[1]
    return address
