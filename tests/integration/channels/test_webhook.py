"""Webhooks to a receiver, and refused addresses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.channels import _addresses
from aitne.adapters.channels.webhook import WebhookChannel
from aitne.core.errors import DeliveryFailed
from aitne.core.models.notification import Webhook
from aitne.core.notifications.webhooks import derive_secret, verify_signature
from aitne.core.ports.channel import ChannelRecipient
from aitne.core.settings import Settings

MESSAGE = {"version": 1, "id": "17-ada", "title": "träin has finished", "log": []}
NOW = 1_767_322_245.0
LOOPBACK = {"http_hosts": ["127.0.0.1", "localhost"], "private_networks": ["127.0.0.0/8"]}


@dataclass
class Receiver:
    """An HTTP server that keeps what it is told and answers as it is told to."""

    port: int = 0
    answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n"
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    silent: bool = False
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = head.strip().split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (each.partition(":") for each in fields)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((line, headers, body))
        if self.silent:
            await self.waiting.wait()
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    found.waiting.set()
    server.close()
    await server.wait_closed()


def channel(tmp_path: Path, **webhooks: Any) -> WebhookChannel:
    (tmp_path / "secrets").mkdir(exist_ok=True)
    (tmp_path / "secrets" / "webhook_key").write_text("0123\n")
    settings = Settings(data_dir=tmp_path, webhooks={"timeout": 60, **webhooks})
    return WebhookChannel(settings, clock=lambda: NOW)


def ada(url: str, generation: int = 1) -> ChannelRecipient:
    made = datetime(2026, 1, 2, tzinfo=UTC)
    hook = Webhook(id="wh_1", owner="ada", url=url, generation=generation, created_at=made)
    return ChannelRecipient(name="ada", webhooks=(hook,))


async def test_webhook_delivery_is_signed(tmp_path: Path, receiver: Receiver) -> None:
    to = ada(f"http://127.0.0.1:{receiver.port}/hook?x=1", generation=3)
    assert await channel(tmp_path, **LOOPBACK).send(MESSAGE, to, "wh_1") == 204
    ((line, headers, body),) = receiver.requests
    assert line == "POST /hook?x=1 HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == MESSAGE
    secret = derive_secret("0123", "wh_1", 3)
    header = headers["aitne-signature"]
    assert verify_signature(secret, header, body, NOW + 10)
    assert not verify_signature(secret, header, body + b" ", NOW)
    assert not verify_signature(secret, header, body, NOW + 3_600)
    assert not verify_signature(derive_secret("0123", "wh_1", 2), header, body, NOW)
    assert not verify_signature(secret, "t=x,v1=y", body, NOW)


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", False),
        (
            b"HTTP/1.1 302 No\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
            False,
        ),
        (b"nonsense\r\n\r\n", True),
    ],
)
async def test_webhook_answer_without_success_fails_delivery(
    tmp_path: Path, receiver: Receiver, answer: bytes, again: bool
) -> None:
    receiver.answer = answer
    to = ada(f"http://127.0.0.1:{receiver.port}/")
    with pytest.raises(DeliveryFailed) as failed:
        await channel(tmp_path, **LOOPBACK).send(MESSAGE, to, "wh_1")
    assert failed.value.again is again
    assert len(receiver.requests) == 1


async def test_webhook_without_answer_is_retried(tmp_path: Path, receiver: Receiver) -> None:
    receiver.silent = True
    to = ada(f"http://127.0.0.1:{receiver.port}/")
    with pytest.raises(DeliveryFailed, match=r"did not answer|cannot be reached") as failed:
        await channel(tmp_path, **LOOPBACK, timeout=1).send(MESSAGE, to, "wh_1")
    assert failed.value.again


async def test_an_answer_without_end_is_not_read_to_its_end(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 300_000
    to = ada(f"http://127.0.0.1:{receiver.port}/")
    assert await channel(tmp_path, **LOOPBACK).send(MESSAGE, to, "wh_1") == 200


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.168.0.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%lo",
        "fd00::1",
        "fec0::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
    ],
)
async def test_a_name_that_leads_inside_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    async def lookup(*_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", ("93.184.215.14", 443)), (0, 0, 0, "", (address, 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lookup, raising=False)
    with pytest.raises(DeliveryFailed, match="address that is not public") as failed:
        await _addresses.resolve_permitted_address("evil.example", 443, [])
    assert not failed.value.again


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://localhost/",
        "https://x.localhost/",
        "https://user:word@hooks.example.org/",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "ftp://hooks.example.org/",
        "https:///x",
        "https://hooks.example.org/\r\nX: y",
        "https://hööks.example.org/",
        "//hooks.example.org/",
        "https://" + "x" * 3_000,
    ],
)
async def test_a_url_that_leads_where_none_may_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(DeliveryFailed, match="refused") as failed:
        await channel(tmp_path).send(MESSAGE, ada(url), "wh_1")
    assert not failed.value.again


async def test_numbers_in_disguise_lead_nowhere_inside(tmp_path: Path) -> None:
    for host in ("2130706433", "0x7f.1", "127.1", "017700000001"):
        with pytest.raises(DeliveryFailed):
            await channel(tmp_path).send(MESSAGE, ada(f"https://{host}/"), "wh_1")


async def test_removed_webhook_receives_no_message(tmp_path: Path, receiver: Receiver) -> None:
    with pytest.raises(DeliveryFailed, match="removed"):
        await channel(tmp_path).send(MESSAGE, ChannelRecipient(name="ada"), "wh_1")
    assert receiver.requests == []


async def test_without_its_key_the_platform_sends_nothing_unsigned(
    tmp_path: Path, receiver: Receiver
) -> None:
    carrier = channel(tmp_path, **LOOPBACK)
    (tmp_path / "secrets" / "webhook_key").unlink()
    with pytest.raises(DeliveryFailed, match="key") as failed:
        await carrier.send(MESSAGE, ada(f"http://127.0.0.1:{receiver.port}/"), "wh_1")
    assert failed.value.again
    assert receiver.requests == []
