"""Webhooks that leave the site by a forward proxy, which leads to no address inside."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from aitne.core.errors import DeliveryFailed
from aitne.core.settings import Settings
from tests.integration.channels.test_webhook import MESSAGE, Receiver, ada, channel
from tests.support.certificates import Authority
from tests.support.forward_proxy import ForwardProxy, listening

PUBLIC = "93.184.215.14"


@pytest.fixture
async def proxy() -> AsyncIterator[ForwardProxy]:
    found = ForwardProxy()
    async with listening(found.serve) as found.port:
        yield found


@pytest.fixture
async def receiver(
    proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Receiver]:
    """The host hooks.example.org, with TLS, behind the proxy."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("hooks", "hooks.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    found = Receiver()
    async with listening(found.serve, context) as found.port:
        proxy.routes = dict.fromkeys((f"{PUBLIC}:443", "hooks.example.org:443"), found.port)
        yield found


def resolves(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    async def lookup(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup, raising=False)


async def test_the_proxy_gets_the_checked_address_and_the_receiver_its_name(
    tmp_path: Path, proxy: ForwardProxy, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = channel(tmp_path, proxy=proxy.url)
    resolves(monkeypatch, PUBLIC)
    assert await hooks.send(MESSAGE, ada("https://hooks.example.org/x?y=1"), "wh_1") == 204
    assert proxy.requests == [f"CONNECT {PUBLIC}:443 HTTP/1.1"]
    line, headers, _ = receiver.requests[0]
    assert line == "POST /x?y=1 HTTP/1.1"
    assert headers["host"] == "hooks.example.org"
    # The certificate is checked for the name of the webhook.
    with pytest.raises(DeliveryFailed, match="CERTIFICATE_VERIFY_FAILED"):
        await hooks.send(MESSAGE, ada("https://other.example.org/"), "wh_1")
    assert len(receiver.requests) == 1


async def test_names_that_the_settings_list_are_left_to_the_proxy(
    tmp_path: Path, proxy: ForwardProxy, receiver: Receiver
) -> None:
    hooks = channel(tmp_path, proxy=proxy.url, proxy_hosts=["hooks.example.org"])
    assert await hooks.send(MESSAGE, ada("https://hooks.example.org/"), "wh_1") == 204
    assert proxy.requests == ["CONNECT hooks.example.org:443 HTTP/1.1"]
    with pytest.raises(DeliveryFailed, match=r"webhooks\.proxy_hosts"):
        await hooks.send(MESSAGE, ada("https://nowhere.invalid/"), "wh_1")
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1"])
async def test_the_proxy_leads_to_no_address_inside(
    tmp_path: Path, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    hooks = channel(tmp_path, proxy=proxy.url)
    resolves(monkeypatch, address)
    with pytest.raises(DeliveryFailed, match="not public"):
        await hooks.send(MESSAGE, ada("https://hooks.example.org/"), "wh_1")
    assert proxy.requests == []


async def test_a_permitted_private_network_is_reached_without_the_proxy(
    tmp_path: Path, proxy: ForwardProxy
) -> None:
    inside = Receiver()
    async with listening(inside.serve) as port:
        hooks = channel(
            tmp_path,
            proxy=proxy.url,
            http_hosts=["127.0.0.1"],
            private_networks=["127.0.0.0/8"],
        )
        assert await hooks.send(MESSAGE, ada(f"http://127.0.0.1:{port}/"), "wh_1") == 204
    assert proxy.requests == []
    assert len(inside.requests) == 1


async def test_a_proxy_that_refuses_is_named(tmp_path: Path, proxy: ForwardProxy) -> None:
    hooks = channel(tmp_path, proxy=proxy.url)
    with pytest.raises(DeliveryFailed, match=r"webhooks\.proxy.*403") as failed:
        await hooks.send(MESSAGE, ada(f"https://{PUBLIC}/"), "wh_1")
    assert proxy.url in failed.value.message
    assert failed.value.again


@pytest.mark.parametrize(
    "webhooks",
    [
        {"proxy": "proxy.example.org:3128"},
        {"proxy": "http://proxy.example.org"},
        {"proxy": "http://a:b@proxy.example.org:3128"},
        {"proxy": "http://proxy.example.org:3128/x"},
        {"proxy": "socks5://proxy.example.org:1080"},
        {"proxy_hosts": ["hooks.example.org"]},
        {"proxy": "http://p:1", "proxy_hosts": ["10.0.0.1"]},
        {"proxy": "http://p:1", "proxy_hosts": ["localhost"]},
        {"proxy": "http://p:1", "proxy_hosts": ["x.localhost"]},
        {"proxy": "http://p:1", "proxy_hosts": ["*.example.org"]},
    ],
)
def test_settings_of_a_proxy_that_cannot_work_are_refused(webhooks: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(webhooks=webhooks)
