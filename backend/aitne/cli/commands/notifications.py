"""``notifications`` and ``webhook``: notifications of the user and their channels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from aitne.cli import output
from aitne.cli.lookup import connect, find_job
from aitne.cli.options import (
    DataDir,
    Json,
    SessionArgument,
    Url,
    Yes,
    examples,
    group_app,
    verb_app,
)

if TYPE_CHECKING:
    from aitne.client import Client
    from aitne.client.notifications import DeliveryRecord, WebhookRecord

ARRIVES_WITHIN_S = 30.0

inbox = group_app("Notifications: list, mark as read.")
webhooks = group_app("Webhooks for your notifications: list, add, test, remove.")

Hook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook from `aitne webhook ls`.")]


@inbox.command(
    "ls",
    epilog=examples("""
aitne notifications ls
aitne notifications ls --all --json
"""),
)
def inbox_ls(
    everything: Annotated[bool, typer.Option("--all", help="Also read notifications.")] = False,
    most: Annotated[int, typer.Option("--limit", min=1, help="Maximum number.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List your unread notifications, newest first."""
    notifications = list(
        connect(url, data_dir).notifications.list(unread=not everything, most=most)
    )
    return output.listing(
        as_json,
        notifications,
        ("ID", "TIME", "LEVEL", "WHAT"),
        lambda notification: (
            notification.id,
            output.moment(notification.created_at),
            notification.level,
            output.plain(notification.title, 70),
        ),
    )


@inbox.command(
    "read",
    epilog=examples("""
aitne notifications read 17 18
aitne notifications read --all
"""),
)
def inbox_read(
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="Ids of notifications.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All notifications.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Mark some or all notifications as read."""
    if bool(ids) == everything:
        from aitne.core.errors import InvalidInput

        raise InvalidInput("Name notifications by their ids, or pass --all.")
    unread = connect(url, data_dir).notifications.read(None if everything else ids)
    return output.done(as_json, {"unread": unread}, f"{unread} unread.")


@inbox.command(
    "settings",
    epilog=examples("""
aitne notifications settings
aitne notifications settings --tell job_failed=mail --not job_finished=browser
aitne notifications settings --mail ada@example.org
"""),
)
def inbox_settings(
    tell: Annotated[
        list[str] | None,
        typer.Option("--tell", metavar="KIND=CHANNEL", help="Use this channel; may be repeated."),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option("--not", metavar="KIND=CHANNEL", help="Do not use it; may be repeated."),
    ] = None,
    mail: Annotated[
        str | None, typer.Option("--mail", metavar="ADDRESS|none", help="Mail address.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show your notification settings, or change those that are given."""
    client = connect(url, data_dir)
    settings = client.notifications.settings()
    if tell or leave or mail is not None:
        choices = {kind: dict(by) for kind, by in settings.choices.items()}
        for texts, enabled in ((tell or [], True), (leave or [], False)):
            for text in texts:
                kind, _, channel = text.partition("=")
                choices.setdefault(kind, {})[channel] = enabled
        settings = client.notifications.set(
            choices,
            mail=settings.mail if mail is None else (None if mail == "none" else mail),
            quiet_until=settings.raw["quiet_until"],
        )
    if as_json:
        output.answer_json(settings.raw)
        return 0
    rows = [
        (kind, *("yes" if by.get(channel) else "" for channel in settings.channels))
        for kind, by in settings.choices.items()
    ]
    output.table(("WHAT", *(channel.upper() for channel in settings.channels)), rows)
    output.say(f"Mail goes to {settings.mail}." if settings.mail else "No mail address.")
    return 0


@webhooks.command("ls", epilog=examples("aitne webhook ls"))
def hook_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List your webhooks and their states."""
    hooks = connect(url, data_dir).webhooks.list()
    return output.listing(
        as_json,
        hooks,
        ("WEBHOOK", "URL", "STATE", "FAILURES"),
        lambda webhook: (
            webhook.id,
            output.plain(webhook.url, 60),
            _state(webhook),
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
    made = connect(url, data_dir).webhooks.create(address)
    _show_secret(made, as_json)
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
    client = connect(url, data_dir)
    if not yes:
        output.confirm(f"Create a new secret for {client.webhooks.get(hook).url}?")
    _show_secret(client.webhooks.rotate(hook), as_json)
    return 0


@webhooks.command("enable", epilog=examples("aitne webhook enable wh_5f2d1c0b9a8e7d6c"))
def hook_enable(
    hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Enable a webhook that was disabled."""
    webhook = connect(url, data_dir).webhooks.update(hook, enabled=True)
    return output.done(as_json, webhook.raw, f"{webhook.id}: {_state(webhook)}.")


@webhooks.command("test", epilog=examples("aitne webhook test wh_5f2d1c0b9a8e7d6c"))
def hook_test(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Send a test message to a webhook and wait for the outcome; status 1 if it is not accepted."""
    client = connect(url, data_dir)
    delivery = _outcome(client, hook, client.webhooks.test(hook))
    if as_json:
        output.answer_json(delivery.raw)
    elif delivery.state == "sent":
        output.say(f"Accepted, with status {delivery.status}.")
    else:
        output.say(delivery.error or "It was not sent yet; `aitne webhook log` shows it later.")
    return 0 if delivery.state == "sent" else 1


@webhooks.command("log", epilog=examples("aitne webhook log wh_5f2d1c0b9a8e7d6c"))
def hook_log(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the last 20 deliveries to a webhook with their outcomes."""
    deliveries = connect(url, data_dir).webhooks.deliveries(hook)
    return output.listing(
        as_json,
        deliveries,
        ("TIME", "KIND", "STATE", "TRIES", "STATUS", "WHY"),
        lambda delivery: (
            output.moment(delivery.created_at),
            delivery.kind,
            delivery.state,
            delivery.attempts,
            "" if delivery.status is None else delivery.status,
            output.plain(delivery.error or "", 60),
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
    """Delete a webhook and its waiting deliveries."""
    client = connect(url, data_dir)
    webhook = client.webhooks.get(hook)
    if not yes:
        output.confirm(f"Remove the webhook to {webhook.url}?")
    client.webhooks.delete(hook)
    return output.done(as_json, webhook.raw, f"{hook}: removed.")


def keep(
    session: SessionArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Keep an idle session from being stopped."""
    client = connect(url, data_dir)
    job = client.sessions.keep(find_job(client, session, sessions=True).id)
    if as_json:
        output.answer_json(job.raw)
    elif job.inactivity_duration_s is None:
        output.say(f"{job.name} is never stopped for inactivity.")
    else:
        limit = output.duration(job.inactivity_duration_s)
        output.say(f"{job.name} continues; it ends after another {limit} without activity.")
    return 0


def _state(webhook: WebhookRecord) -> str:
    return "enabled" if webhook.enabled else f"disabled: {webhook.disabled_reason or ''}"


def _show_secret(webhook: WebhookRecord, as_json: bool) -> None:
    if as_json:
        output.answer_json(webhook.raw)
        return
    output.facts([("webhook", webhook.id), ("url", webhook.url), ("secret", webhook.secret)])
    output.say("The secret is not shown again; `aitne webhook rotate` creates a new one.")


def _outcome(client: Client, hook: str, sent: DeliveryRecord) -> DeliveryRecord:
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while sent.state == "waiting" and time.monotonic() < deadline:
        time.sleep(0.3)
        log = client.webhooks.deliveries(hook)
        sent = next((delivery for delivery in log if delivery.id == sent.id), sent)
    return sent


apps = {
    "notifications": inbox,
    "webhook": webhooks,
    "keep": verb_app("keep", keep, example="aitne keep my-notebook"),
}
