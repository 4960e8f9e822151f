"""Selection of the IP address to which a webhook is sent, such that users' URLs cannot reach the
platform's own networks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

from aitne.core.errors import DeliveryFailed
from aitne.core.notifications.webhooks import is_permitted_address


async def resolve_permitted_address(host: str, port: int, private_networks: Sequence[str]) -> str:
    """Resolve the host and return one of its IP addresses to which the platform may connect: a
    public one, or one in the networks ``private_networks`` of the platform's settings.

    The caller must connect to exactly this address, because a second lookup of the name could give
    another one.

    Raises:
        DeliveryFailed: the name has no address, or one that is not permitted.
    """
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DeliveryFailed(
            f"{host} has no address: {error}. Where only a proxy knows the names of other sites, an "
            "administrator sets webhooks.proxy and lists the host in webhooks.proxy_hosts.",
            again=True,
        ) from error
    addresses = [ipaddress.ip_address(str(info[4][0]).partition("%")[0]) for info in infos]
    for address in addresses:
        if not is_permitted_address(address, private_networks):
            raise DeliveryFailed(
                f"{host} has an address that is not public; this site does not allow webhooks to "
                "it.",
                again=False,
            )
    return str(addresses[0])
