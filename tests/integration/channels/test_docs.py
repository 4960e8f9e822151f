"""The receiver of ``docs/reference/webhooks.md`` runs and accepts genuine messages alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from aitne.adapters.channels.webhook import WebhookChannel
from aitne.core.errors import DeliveryFailed
from aitne.core.models.notification import Webhook
from aitne.core.notifications.webhooks import derive_secret
from aitne.core.ports.channel import ChannelRecipient
from aitne.core.settings import Settings
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "webhooks.md"


async def test_the_receiver_of_the_reference_takes_what_the_platform_sends(tmp_path: Path) -> None:
    found = re.search(r'```python title="receiver.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    program = tmp_path / "receiver.py"
    program.write_text(found[1])
    port = reserve_ports()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "webhook_key").write_text("0123\n")
    channel = WebhookChannel(
        Settings(
            data_dir=tmp_path,
            webhooks={"http_hosts": ["127.0.0.1"], "private_networks": ["127.0.0.0/8"]},
        )
    )
    environment = {
        **os.environ,
        "PORT": str(port),
        "WEBHOOK_SECRET": derive_secret("0123", "wh_1", 1),
    }
    url = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(
        [sys.executable, program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as receiver:
        try:

            def listens() -> bool:
                try:
                    return httpx.post(url, content=b"{}", trust_env=False).status_code == 401
                except httpx.HTTPError:
                    return False

            eventually("the receiver does not listen", listens)
            made = datetime(2026, 1, 2, tzinfo=UTC)
            hook = Webhook(id="wh_1", owner="ada", url=url, created_at=made)
            message = {"title": "träin has finished"}
            told = ChannelRecipient(name="ada", webhooks=(hook,))
            assert await channel.send(message, told, "wh_1") == 204
            forged = hook.model_copy(update={"generation": 2})
            with pytest.raises(DeliveryFailed, match="401"):
                await channel.send(
                    message, ChannelRecipient(name="ada", webhooks=(forged,)), "wh_1"
                )
        finally:
            receiver.terminate()
        assert receiver.stdout is not None
        assert "träin has finished" in receiver.stdout.read().decode()
