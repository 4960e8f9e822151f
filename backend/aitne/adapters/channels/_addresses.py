"""Selection of the address that a webhook is sent to: a user's URL never reaches the platform's own
networks.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

from aitne.core.errors import DeliveryFailed
from aitne.core.webhooks import permits


async def resolve(host: str, port: int, private_networks: Sequence[str]) -> str:
    """Return an address of the host that may be connected to.

    The connection goes to exactly this address, so that no second lookup of the name finds another.

    Raises:
        DeliveryFailed: the name is not known, or it leads (also) where it may not.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DeliveryFailed(f"{host} has no address: {error}.", again=True) from error
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    for address in addresses:
        if not permits(address, private_networks):
            raise DeliveryFailed(
                f"{host} leads to no public address; this site does not let webhooks lead there.",
                again=False,
            )
    return str(addresses[0])
