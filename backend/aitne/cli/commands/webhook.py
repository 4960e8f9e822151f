"""``webhook``: URLs of other services that receive the user's notifications."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url, Yes

if TYPE_CHECKING:
    from aitne.client import Client
    from aitne.client.notifications import DeliveryRecord, WebhookRecord

ARRIVES_WITHIN_S = 30.0


@group("webhook", LOOK)
def webhooks() -> None:
    """List, add, test and remove webhooks for your notifications."""


Hook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook from `aitne webhook ls`.")]


@webhooks.command("ls", epilog=examples("aitne webhook ls"))
def hook_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List your webhooks and their states."""
    hooks = make_client(url, data_dir).webhooks.list()
    return output.print_list(
        as_json,
        hooks,
        ("WEBHOOK", "URL", "STATE", "FAILURES"),
        lambda webhook: (
            webhook.id,
            output.to_single_line(webhook.url, 60),
            _format_state(webhook),
            webhook.failures,
        ),
    )


@webhooks.command("add", epilog=examples("aitne webhook add https://hooks.example.org/aitne"))
def hook_add(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="URL that receives messages: https://…")
    ],
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Create a webhook. The secret that signs its messages is printed only once."""
    made = make_client(url, data_dir).webhooks.create(address)
    _print_secret(made, as_json)
    return 0


@webhooks.command("rotate", epilog=examples("aitne webhook rotate wh_5f2d1c0b9a8e7d6c --yes"))
def hook_rotate(
    hook: Hook,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Replace the secret of a webhook. The new one is printed only once."""
    client = make_client(url, data_dir)
    if not yes:
        output.require_confirmation(f"Create a new secret for {client.webhooks.get(hook).url}?")
    _print_secret(client.webhooks.rotate(hook), as_json)
    return 0


@webhooks.command("enable", epilog=examples("aitne webhook enable wh_5f2d1c0b9a8e7d6c"))
def hook_enable(
    hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Enable a disabled webhook again."""
    webhook = make_client(url, data_dir).webhooks.update(hook, enabled=True)
    return output.print_done(as_json, webhook.raw, f"{webhook.id}: {_format_state(webhook)}.")


@webhooks.command("test", epilog=examples("aitne webhook test wh_5f2d1c0b9a8e7d6c"))
def hook_test(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Send a test message to a webhook and wait for the outcome; status 1 if it is not accepted."""
    client = make_client(url, data_dir)
    delivery = _wait_for_delivery(client, hook, client.webhooks.test(hook))
    if as_json:
        output.print_json(delivery.raw)
    elif delivery.state == "sent":
        output.print_message(f"Accepted, with status {delivery.status}.")
    else:
        output.print_message(
            delivery.error or "It was not sent yet; `aitne webhook log` shows it later."
        )
    return 0 if delivery.state == "sent" else 1


@webhooks.command("log", epilog=examples("aitne webhook log wh_5f2d1c0b9a8e7d6c"))
def hook_log(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the last 20 deliveries to a webhook with their outcomes."""
    deliveries = make_client(url, data_dir).webhooks.deliveries(hook)
    return output.print_list(
        as_json,
        deliveries,
        ("TIME", "KIND", "STATE", "TRIES", "STATUS", "WHY"),
        lambda delivery: (
            output.format_time(delivery.created_at),
            delivery.kind,
            delivery.state,
            delivery.attempts,
            "" if delivery.status is None else delivery.status,
            output.to_single_line(delivery.error or "", 60),
        ),
    )


@webhooks.command("rm", epilog=examples("aitne webhook rm wh_5f2d1c0b9a8e7d6c --yes"))
def hook_rm(
    hook: Hook,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Delete a webhook and its pending deliveries."""
    client = make_client(url, data_dir)
    webhook = client.webhooks.get(hook)
    if not yes:
        output.require_confirmation(f"Remove the webhook to {webhook.url}?")
    client.webhooks.delete(hook)
    return output.print_done(as_json, webhook.raw, f"{hook}: removed.")


def _format_state(webhook: WebhookRecord) -> str:
    return "enabled" if webhook.enabled else f"disabled: {webhook.disabled_reason or ''}"


def _print_secret(webhook: WebhookRecord, as_json: bool) -> None:
    if as_json:
        output.print_json(webhook.raw)
        return
    output.print_facts([("webhook", webhook.id), ("url", webhook.url), ("secret", webhook.secret)])
    output.print_message("The secret is not shown again; `aitne webhook rotate` creates a new one.")


def _wait_for_delivery(client: Client, hook: str, sent: DeliveryRecord) -> DeliveryRecord:
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while sent.state == "waiting" and time.monotonic() < deadline:
        time.sleep(0.3)
        log = client.webhooks.deliveries(hook)
        sent = next((delivery for delivery in log if delivery.id == sent.id), sent)
    return sent
