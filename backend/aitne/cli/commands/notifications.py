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
    from aitne.client.notifications import Delivery, Webhook

ARRIVES_WITHIN_S = 30.0

inbox = group_app("Notifications: list, mark as read.")
webhooks = group_app("Webhooks for your notifications: list, add, test, remove.")

Hook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="As `aitne webhook ls` names it.")]


@inbox.command(
    "ls",
    epilog=examples("""
aitne notifications ls
aitne notifications ls --all --json
"""),
)
def inbox_ls(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that you have read.")
    ] = False,
    most: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List your unread notifications, newest first."""
    found = list(connect(url, data_dir).notifications.list(unread=not everything, most=most))
    return output.listing(
        as_json,
        found,
        ("ID", "TIME", "LEVEL", "WHAT"),
        lambda each: (
            each.id,
            output.moment(each.created_at),
            each.level,
            output.plain(each.title, 70),
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
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Which.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Mark some or all notifications as read."""
    if bool(ids) == everything:
        from aitne.core.errors import InvalidInput

        raise InvalidInput("Name those that you have read, or pass --all.")
    left = connect(url, data_dir).notifications.read(None if everything else ids)
    return output.done(as_json, {"unread": left}, f"{left} not read.")


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
        typer.Option("--tell", metavar="KIND=CHANNEL", help="By this channel; may be repeated."),
    ] = None,
    leave: Annotated[
        list[str] | None,
        typer.Option("--not", metavar="KIND=CHANNEL", help="Not by it; may be repeated."),
    ] = None,
    mail: Annotated[
        str | None, typer.Option("--mail", metavar="ADDRESS|none", help="Where mail goes.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """Show your notification settings, or change those that are given."""
    client = connect(url, data_dir)
    found = client.notifications.settings()
    if tell or leave or mail is not None:
        choices = {kind: dict(by) for kind, by in found.choices.items()}
        for texts, wanted in ((tell or [], True), (leave or [], False)):
            for text in texts:
                kind, _, channel = text.partition("=")
                choices.setdefault(kind, {})[channel] = wanted
        found = client.notifications.set(
            choices,
            mail=found.mail if mail is None else (None if mail == "none" else mail),
            quiet_until=found.raw["quiet_until"],
        )
    if as_json:
        output.answer_json(found.raw)
        return 0
    rows = [
        (kind, *("yes" if by.get(channel) else "" for channel in found.channels))
        for kind, by in found.choices.items()
    ]
    output.table(("WHAT", *(channel.upper() for channel in found.channels)), rows)
    output.say(f"Mail goes to {found.mail}." if found.mail else "No mail address.")
    return 0


@webhooks.command("ls", epilog=examples("aitne webhook ls"))
def hook_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List your webhooks and their states."""
    found = connect(url, data_dir).webhooks.list()
    return output.listing(
        as_json,
        found,
        ("WEBHOOK", "URL", "STATE", "FAILURES"),
        lambda each: (each.id, output.plain(each.url, 60), _state(each), each.failures),
    )


@webhooks.command("add", epilog=examples("aitne webhook add https://hooks.example.org/aitne"))
def hook_add(
    address: Annotated[str, typer.Argument(metavar="URL", help="Where it leads: https://…")],
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
        output.confirm(f"Make a new secret for {client.webhooks.get(hook).url}?")
    _show_secret(client.webhooks.rotate(hook), as_json)
    return 0


@webhooks.command("enable", epilog=examples("aitne webhook enable wh_5f2d1c0b9a8e7d6c"))
def hook_enable(
    hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Enable a webhook that was disabled."""
    found = connect(url, data_dir).webhooks.update(hook, enabled=True)
    return output.done(as_json, found.raw, f"{found.id}: {_state(found)}.")


@webhooks.command("test", epilog=examples("aitne webhook test wh_5f2d1c0b9a8e7d6c"))
def hook_test(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Send a test message to a webhook and wait for the outcome; status 1 if it is not accepted."""
    client = connect(url, data_dir)
    found = _outcome(client, hook, client.webhooks.test(hook))
    if as_json:
        output.answer_json(found.raw)
    elif found.state == "sent":
        output.say(f"Taken, with status {found.status}.")
    else:
        output.say(found.error or "Nobody has sent it yet; `aitne webhook log` shows it later.")
    return 0 if found.state == "sent" else 1


@webhooks.command("log", epilog=examples("aitne webhook log wh_5f2d1c0b9a8e7d6c"))
def hook_log(hook: Hook, as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """Show the last 20 deliveries to a webhook with their outcomes."""
    found = connect(url, data_dir).webhooks.deliveries(hook)
    return output.listing(
        as_json,
        found,
        ("TIME", "KIND", "STATE", "TRIES", "STATUS", "WHY"),
        lambda each: (
            output.moment(each.created_at),
            each.kind,
            each.state,
            each.tries,
            "" if each.status is None else each.status,
            output.plain(each.error or "", 60),
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
    found = client.webhooks.get(hook)
    if not yes:
        output.confirm(f"Remove the webhook to {found.url}?")
    client.webhooks.delete(hook)
    return output.done(as_json, found.raw, f"{hook}: removed.")


def keep(
    session: SessionArgument, as_json: Json = False, url: Url = None, data_dir: DataDir = None
) -> int:
    """Keep an idle session from being stopped."""
    client = connect(url, data_dir)
    found = client.sessions.keep(find_job(client, session, sessions=True).id)
    if as_json:
        output.answer_json(found.raw)
    elif found.inactivity_duration_s is None:
        output.say(f"{found.name} is never ended for being idle.")
    else:
        limit = output.duration(found.inactivity_duration_s)
        output.say(f"{found.name} stays; it would end after another {limit} without activity.")
    return 0


def _state(webhook: Webhook) -> str:
    return "enabled" if webhook.enabled else f"disabled: {webhook.disabled_why or ''}"


def _show_secret(webhook: Webhook, as_json: bool) -> None:
    if as_json:
        output.answer_json(webhook.raw)
        return
    output.facts([("webhook", webhook.id), ("url", webhook.url), ("secret", webhook.secret)])
    output.say("The secret is not shown again; `aitne webhook rotate` makes a new one.")


def _outcome(client: Client, hook: str, sent: Delivery) -> Delivery:
    deadline = time.monotonic() + ARRIVES_WITHIN_S
    while sent.state == "waiting" and time.monotonic() < deadline:
        time.sleep(0.3)
        log = client.webhooks.deliveries(hook)
        sent = next((each for each in log if each.id == sent.id), sent)
    return sent


apps = {
    "notifications": inbox,
    "webhook": webhooks,
    "keep": verb_app("keep", keep, example="aitne keep my-notebook"),
}
