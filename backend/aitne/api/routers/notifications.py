"""Routes of notifications, their settings, and webhooks."""

from __future__ import annotations

from enum import Enum
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Query, Response

from aitne.api.audit_middleware import NotesDep
from aitne.api.conditional_requests import TagsDep
from aitne.api.dependencies import Admin, PlatformDep, Reader, Writer
from aitne.api.notification_views import (
    DeliveryList,
    DeliveryView,
    IdleGpuJobs,
    NotificationPage,
    NotificationQuery,
    NotificationSettingsChanges,
    NotificationSettingsView,
    NotificationView,
    ReadNotifications,
    UnreadCount,
    WebhookChanges,
    WebhookList,
    WebhookSecret,
    WebhookUrl,
    WebhookView,
)
from aitne.api.routers import V1
from aitne.api.routers.jobs import make_job_view
from aitne.core.models.notification import Webhook
from aitne.services.notifications.user_notifications import NotificationPreferences

router = APIRouter(prefix=V1)
WebhookId = Annotated[
    str,
    Path(max_length=40, description="A webhook's name.", examples=["wh_5f2d1c0b9a8e7d6c"]),
]
_INBOX: list[str | Enum] = ["notifications"]
_HOOKS: list[str | Enum] = ["webhooks"]


def _get_audit_name(webhook: Webhook) -> str:
    """Return the name of a webhook for the audit log: its host, because the path may be a
    secret."""
    return urlsplit(webhook.url).hostname or ""


@router.get("/notifications", tags=_INBOX)
async def list_notifications(
    where: Annotated[NotificationQuery, Query()], actor: Reader, platform: PlatformDep
) -> NotificationPage:
    """List your notifications, newest first."""
    page, unread = await platform.notifications.inbox(
        actor, unread=where.unread, cursor=where.cursor, limit=where.limit
    )
    return NotificationPage(
        items=[NotificationView.from_notification(notification) for notification in page.items],
        next_cursor=page.next_cursor,
        total=page.total,
        unread=unread,
    )


@router.post("/notifications/read", tags=_INBOX)
async def read_notifications(
    body: ReadNotifications, actor: Writer, platform: PlatformDep
) -> UnreadCount:
    """Mark some or all notifications as read."""
    return UnreadCount(unread=await platform.notifications.mark_read(actor, body.ids))


@router.get("/notifications/settings", tags=_INBOX)
async def get_notification_settings(
    actor: Reader, platform: PlatformDep, tags: TagsDep
) -> NotificationSettingsView:
    """Return your notification settings."""
    return tags.set_etag(_settings_view(await platform.notifications.preferences(actor)))


@router.put("/notifications/settings", tags=_INBOX)
async def put_notification_settings(
    body: NotificationSettingsChanges, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> NotificationSettingsView:
    """Replace your notification settings."""
    preferences = await platform.notifications.save_preferences(
        actor,
        body.to_choices(),
        body.mail,
        check=lambda current: tags.check_if_match(_settings_view(current)),
    )
    return tags.set_etag(_settings_view(preferences))


@router.post("/notifications/mail/test", status_code=202, tags=_INBOX)
async def test_mail(actor: Writer, platform: PlatformDep) -> DeliveryView:
    """Send a test mail to yourself."""
    return DeliveryView.from_delivery(await platform.notifications.send_test_mail(actor))


@router.get("/notifications/mail/deliveries", tags=_INBOX)
async def list_mail_deliveries(actor: Reader, platform: PlatformDep) -> DeliveryList:
    """List the last mails to you with their outcomes."""
    deliveries = await platform.notifications.mail_deliveries(actor)
    return DeliveryList(items=[DeliveryView.from_delivery(delivery) for delivery in deliveries])


@router.get("/webhooks", tags=_HOOKS)
async def list_webhooks(actor: Reader, platform: PlatformDep) -> WebhookList:
    """List your webhooks, without their secrets."""
    webhooks = await platform.notifications.list_webhooks(actor)
    return WebhookList(items=[WebhookView.from_webhook(webhook) for webhook in webhooks])


@router.post("/webhooks", status_code=201, tags=_HOOKS)
async def create_webhook(
    body: WebhookUrl, actor: Writer, platform: PlatformDep, response: Response, notes: NotesDep
) -> WebhookSecret:
    """Create a webhook for your notifications. The secret that signs them is shown only once."""
    webhook, secret = await platform.notifications.create_webhook(actor, body.url)
    response.headers["Location"] = f"{V1}/webhooks/{webhook.id}"
    notes["name"] = _get_audit_name(webhook)
    return WebhookSecret(**dict(WebhookView.from_webhook(webhook)), secret=secret)


@router.get("/webhooks/{webhook_id}", tags=_HOOKS)
async def get_webhook(
    webhook_id: WebhookId, actor: Reader, platform: PlatformDep, tags: TagsDep
) -> WebhookView:
    """Return one of your webhooks."""
    return tags.set_etag(
        WebhookView.from_webhook(await platform.notifications.webhook(actor, webhook_id))
    )


@router.patch("/webhooks/{webhook_id}", tags=_HOOKS)
async def update_webhook(
    webhook_id: WebhookId,
    body: WebhookChanges,
    actor: Writer,
    platform: PlatformDep,
    tags: TagsDep,
    notes: NotesDep,
) -> WebhookView:
    """Change the URL of a webhook, disable it, or enable it again."""
    webhook = await platform.notifications.update_webhook(
        actor,
        webhook_id,
        url=body.url,
        enabled=body.enabled,
        check=lambda current: tags.check_if_match(WebhookView.from_webhook(current)),
    )
    notes["name"] = _get_audit_name(webhook)
    return tags.set_etag(WebhookView.from_webhook(webhook))


@router.delete("/webhooks/{webhook_id}", status_code=204, tags=_HOOKS)
async def delete_webhook(
    webhook_id: WebhookId, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> None:
    """Delete a webhook and its pending deliveries."""
    notes["name"] = _get_audit_name(await platform.notifications.delete_webhook(actor, webhook_id))


@router.post("/webhooks/{webhook_id}/rotate", tags=_HOOKS)
async def rotate_webhook(
    webhook_id: WebhookId, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> WebhookSecret:
    """Replace the secret of a webhook. The new one is shown only once; the old one is not used any
    more."""
    webhook, secret = await platform.notifications.rotate_webhook_secret(actor, webhook_id)
    notes["name"] = _get_audit_name(webhook)
    return WebhookSecret(**dict(WebhookView.from_webhook(webhook)), secret=secret)


@router.post("/webhooks/{webhook_id}/test", status_code=202, tags=_HOOKS)
async def test_webhook(webhook_id: WebhookId, actor: Writer, platform: PlatformDep) -> DeliveryView:
    """Send one test message to a webhook. Its deliveries show the outcome."""
    return DeliveryView.from_delivery(
        await platform.notifications.send_test_to_webhook(actor, webhook_id)
    )


@router.get("/webhooks/{webhook_id}/deliveries", tags=_HOOKS)
async def list_webhook_deliveries(
    webhook_id: WebhookId, actor: Reader, platform: PlatformDep
) -> DeliveryList:
    """List the last deliveries to a webhook with their outcomes."""
    deliveries = await platform.notifications.webhook_deliveries(actor, webhook_id)
    return DeliveryList(items=[DeliveryView.from_delivery(delivery) for delivery in deliveries])


@router.get("/admin/idle-gpus", tags=["admin"])
async def list_idle_gpus(actor: Admin, platform: PlatformDep) -> IdleGpuJobs:
    """List the jobs, rank groups and sessions that leave their GPUs idle; administrators only."""
    jobs = await platform.notifications.idle_gpu_jobs(actor)
    return IdleGpuJobs(
        items=[make_job_view(job, actor, platform) for job in jobs],
        gpus=sum(job.spec.resources.nodes * job.spec.resources.gpu.count for job in jobs),
    )


def _settings_view(preferences: NotificationPreferences) -> NotificationSettingsView:
    return NotificationSettingsView.model_validate(preferences.model_dump())
