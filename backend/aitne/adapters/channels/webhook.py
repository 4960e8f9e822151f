"""Notifications by webhooks: messages as signed JSON, sent to URLs that users have configured."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult

import httpx

from aitne.adapters.channels._addresses import resolve_permitted_address
from aitne.adapters.channels._tunnel import TunnelTransport
from aitne.core.errors import DeliveryFailed
from aitne.core.models.notification import Webhook
from aitne.core.notifications.webhooks import (
    SECRET_KEY,
    SIGNATURE,
    check_url,
    derive_secret,
    is_in_networks,
    sign_body,
)
from aitne.core.ports.channel import ChannelRecipient
from aitne.core.settings import Settings

_TAKEN = range(200, 300)
_AGAIN = frozenset({408, 425, 429})
_MOST_ANSWER = 65_536
"""Maximum number of bytes of a response that are read, and then discarded."""


class WebhookChannel:
    """Channel that posts notifications to webhooks; implements ``core.ports.channel.Channel``."""

    name = "webhook"
    retry_period_s = 6 * 3_600.0

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock

    @property
    def is_available(self) -> bool:
        """Return True if the platform's settings permit webhooks."""
        return self._settings.webhooks.enabled

    def list_targets(self, person: ChannelRecipient) -> Sequence[str]:
        """Return the ids of the user's webhooks."""
        return [webhook.id for webhook in person.webhooks]

    async def send(self, message: Mapping[str, Any], person: ChannelRecipient, target: str) -> int:
        """Send the message to the webhook ``target`` by one POST; return the HTTP status. Raises
        ``DeliveryFailed``.
        """
        webhook = next((hook for hook in person.webhooks if hook.id == target), None)
        if webhook is None:
            raise DeliveryFailed("The webhook was removed or is disabled.", again=False)
        try:
            url = check_url(webhook.url, self._settings.webhooks)
        except ValueError as error:
            raise DeliveryFailed(f"The webhook's URL is refused: {error}.", again=False) from error
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            async with asyncio.timeout(self._settings.webhooks.timeout):
                return await self._post(webhook, url, body)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"{url.hostname} did not answer within {self._settings.webhooks.timeout} s.",
                again=True,
            ) from error

    async def _post(self, webhook: Webhook, url: SplitResult, body: bytes) -> int:
        host = url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        address, proxy = await self._choose_route(host, port)
        shown = f"[{address}]" if ":" in address else address
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        request = httpx.Request(
            "POST",
            f"{url.scheme}://{shown}:{port}{path}",
            headers={
                "Host": url.netloc.rpartition("@")[2],
                "Content-Type": "application/json",
                "User-Agent": "Aitne-Webhook/1",
                SIGNATURE: sign_body(
                    self._derive_webhook_secret(webhook), int(self._clock()), body
                ),
            },
            content=body,
            # The certificate must match the name, although the connection goes to the address.
            extensions={"sni_hostname": host},
        )
        async with httpx.AsyncClient(
            timeout=self._settings.webhooks.timeout,
            trust_env=False,
            follow_redirects=False,
            transport=None if proxy is None else TunnelTransport(proxy),
        ) as client:
            try:
                answer = await client.send(request, stream=True)
                try:
                    await _discard_body(answer)
                finally:
                    await answer.aclose()
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                by = "" if proxy is None else f" by the proxy {proxy} (webhooks.proxy)"
                raise DeliveryFailed(
                    f"{host} cannot be reached{by}: {error or type(error).__name__}.", again=True
                ) from error
        return _check_status(host, answer.status_code)

    async def _choose_route(self, host: str, port: int) -> tuple[str, str | None]:
        """Return the address to connect to, and the proxy that leads there; None: no proxy.

        The proxy gets an address that was checked here, so that no name can lead it to a private
        one; only names that the settings list are left to it.
        """
        settings = self._settings.webhooks
        if settings.proxy is not None and host in settings.proxy_hosts:
            return host, settings.proxy
        address = await resolve_permitted_address(host, port, settings.private_networks)
        inside = is_in_networks(ipaddress.ip_address(address), settings.private_networks)
        return address, None if inside else settings.proxy

    def _derive_webhook_secret(self, webhook: Webhook) -> str:
        path = self._settings.secrets_dir / SECRET_KEY
        try:
            key = path.read_text().strip()
        except OSError as error:
            raise DeliveryFailed(
                f"The platform cannot read its key {path}: {error.strerror}.", again=True
            ) from error
        return derive_secret(key, webhook.id, webhook.generation)


async def _discard_body(answer: httpx.Response) -> None:
    read = 0
    async for part in answer.aiter_raw():
        read += len(part)
        if read > _MOST_ANSWER:
            return


def _check_status(host: str, status: int) -> int:
    if status in _TAKEN:
        return status
    if 300 <= status < 400:
        raise DeliveryFailed(
            f"{host} answers {status}: redirects are not followed. Enter the address to which it "
            "redirects.",
            again=False,
            status=status,
        )
    raise DeliveryFailed(
        f"{host} answers {status}.", again=status >= 500 or status in _AGAIN, status=status
    )
