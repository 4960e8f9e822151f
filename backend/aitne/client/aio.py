"""The asynchronous client: ``Client`` with every method awaited. Made by ``make gen``; do not edit.

::

    from aitne import AsyncClient

    async with AsyncClient() as aitne:
        job = await aitne.jobs.create({"name": "hello", "commands": ["echo hello"]})
        async for chunk in aitne.jobs.follow_logs(job.id):
            print(chunk.decode(), end="")
        print((await aitne.jobs.wait(job.id)).state)

What each method does is said at its synchronous twin. Functions that are handed over, to hear of
progress for example, are called in another thread.
"""

# ruff: noqa: A002, D102, FBT

from __future__ import annotations

from aitne.client.client import Client
from aitne.client.thread_calls import call_in_thread, iterate_in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Self

    from aitne.client.accounts import Account, ProtectionRecord, SignInRecord, Tokens, Users
    from aitne.client.admin_records import (
        AnnouncementRecord,
        AuditCheckRecord,
        AuditEntryRecord,
        HealthRecord,
        MaintenanceRecord,
        NodeEventRecord,
        SettingRecord,
    )
    from aitne.client.administration import Administration, Announcements, Audit, MaintenanceSwitch
    from aitne.client.datasets import DatasetRecord, Datasets
    from aitne.client.downloads import Download
    from aitne.client.functions import Functions, Item, T
    from aitne.client.futures import Future, FutureArray
    from aitne.client.images import ArtifactRecord, ImageRecord, Images
    from aitne.client.job_files import StoredFileRecord
    from aitne.client.job_runs import (
        ComparisonRecord,
        RerunRecord,
        ResultsRecord,
        SnapshotRecord,
        SweepRecord,
        WrittenFilesRecord,
    )
    from aitne.client.jobs import Jobs
    from aitne.client.manifests import Progress
    from aitne.client.notifications import (
        DeliveryRecord,
        NotificationRecord,
        Notifications,
        NotificationSettingsRecord,
        WebhookRecord,
        Webhooks,
    )
    from aitne.client.platform_discovery import Platform
    from aitne.client.preferences import Preferences
    from aitne.client.project_records import (
        BalanceRecord,
        InvitationLinkRecord,
        InvitationPreviewRecord,
        InvitationRecord,
        MembershipRecord,
        ProjectLimitsRecord,
        ProjectRecord,
        ProjectReportRecord,
        SyncReportRecord,
        UsageReportRecord,
        WaitingJobRecord,
    )
    from aitne.client.projects import Projects
    from aitne.client.records import (
        AdviceRecord,
        CurrentUserRecord,
        Event,
        FailureRecord,
        Job,
        LoginLinkRecord,
        Node,
        PartitionRecord,
        Plan,
        QueuePositionRecord,
        Template,
        TemplateProblemRecord,
        Token,
        User,
        UserListItemRecord,
    )
    from aitne.client.secrets import SecretRecord, Secrets
    from aitne.client.sessions import Sessions
    from aitne.client.storage_areas import JobFoldersRecord, StorageAreas, StorageViewRecord
    from aitne.client.templates_and_nodes import Nodes, Templates
    from aitne.client.terminal_connection import TerminalConnection
    from aitne.client.transport import RequestTransport
    from aitne.client.tree_upload import TreeLimitsRecord, TreeRecord, Trees
    from aitne.core.errors import AitneError


class AsyncJobs:
    """Asynchronous counterpart of ``Jobs``: the same methods as coroutines."""

    def __init__(self, sync: Jobs) -> None:
        self._sync = sync

    async def plan(self, job_file: Mapping[str, Any]) -> Plan:
        return await call_in_thread(self._sync.plan, job_file)

    async def create(
        self,
        job_file: Mapping[str, Any],
        *,
        key: str | None = None,
        sync: str | os.PathLike[str] | None = None,
    ) -> Job:
        return await call_in_thread(self._sync.create, job_file, key=key, sync=sync)

    async def submit_many(
        self, job_files: Iterable[Mapping[str, Any]], *, key: str | None = None
    ) -> builtins.list[Job | AitneError]:
        return await call_in_thread(self._sync.submit_many, job_files, key=key)

    async def resubmit(
        self,
        job_id: str,
        *,
        memory: str | None = None,
        max_duration: str | None = None,
        key: str | None = None,
    ) -> Job:
        return await call_in_thread(
            self._sync.resubmit, job_id, memory=memory, max_duration=max_duration, key=key
        )

    async def get(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.get, job_id)

    async def attach(
        self,
        job_id: str,
        argv: Sequence[str] = (),
        *,
        node: str | None = None,
        tty: bool = False,
        rows: int = 24,
        cols: int = 80,
        term: str = "xterm-256color",
    ) -> TerminalConnection:
        return await call_in_thread(
            self._sync.attach, job_id, argv, node=node, tty=tty, rows=rows, cols=cols, term=term
        )

    async def attach_ssh(
        self, job_id: str, public_key: str, *, node: str | None = None
    ) -> TerminalConnection:
        return await call_in_thread(self._sync.attach_ssh, job_id, public_key, node=node)

    async def ssh_account(self) -> str:
        return await call_in_thread(self._sync.ssh_account)

    async def queue_position(self, job_id: str) -> QueuePositionRecord | None:
        return await call_in_thread(self._sync.queue_position, job_id)

    async def queue_place(self, job_id: str) -> QueuePositionRecord | None:
        return await call_in_thread(self._sync.queue_place, job_id)

    async def advice(self, job_id: str) -> builtins.list[AdviceRecord]:
        return await call_in_thread(self._sync.advice, job_id)

    async def failure(self, job_id: str) -> FailureRecord | None:
        return await call_in_thread(self._sync.failure, job_id)

    def list(
        self,
        *,
        states: Sequence[str] = (),
        live: bool = False,
        type: str | None = None,
        owner: str | None = None,
        project: str | None = None,
        search: str | None = None,
        array_job_id: str | None = None,
        top_level: bool = False,
        limit: int | None = None,
        sort: str | None = None,
        ascending: bool = False,
        **where: str | int | bool | None,
    ) -> AsyncIterator[Job]:
        return iterate_in_thread(
            self._sync.list,
            states=states,
            live=live,
            type=type,
            owner=owner,
            project=project,
            search=search,
            array_job_id=array_job_id,
            top_level=top_level,
            limit=limit,
            sort=sort,
            ascending=ascending,
            **where,
        )

    async def count(self, **where: Any) -> dict[str, Any]:
        return await call_in_thread(self._sync.count, **where)

    async def cancel_many(self, job_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        return await call_in_thread(self._sync.cancel_many, job_ids)

    async def cancel_all(self, *, expected: int, **where: Any) -> Sequence[dict[str, Any]]:
        return await call_in_thread(self._sync.cancel_all, expected=expected, **where)

    async def file(self, job_id: str) -> str:
        return await call_in_thread(self._sync.file, job_id)

    async def import_sbatch(self, script: str) -> dict[str, Any]:
        return await call_in_thread(self._sync.import_sbatch, script)

    async def cancel(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.cancel, job_id)

    async def delete(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.delete, job_id)

    async def delete_many(self, job_ids: Sequence[str]) -> Sequence[dict[str, Any]]:
        return await call_in_thread(self._sync.delete_many, job_ids)

    async def delete_all(self, *, expected: int, **where: Any) -> Sequence[dict[str, Any]]:
        return await call_in_thread(self._sync.delete_all, expected=expected, **where)

    async def extend(self, job_id: str, duration: str) -> Job:
        return await call_in_thread(self._sync.extend, job_id, duration)

    async def hold(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.hold, job_id)

    async def release(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.release, job_id)

    async def throttle(self, job_id: str, max_parallel: int | None) -> Job:
        return await call_in_thread(self._sync.throttle, job_id, max_parallel)

    async def script(self, job_id: str) -> str:
        return await call_in_thread(self._sync.script, job_id)

    async def events(self, job_id: str) -> Sequence[Event]:
        return await call_in_thread(self._sync.events, job_id)

    async def metrics(self, job_id: str) -> dict[str, Any]:
        return await call_in_thread(self._sync.metrics, job_id)

    async def placement(self, job_id: str) -> dict[str, Any]:
        return await call_in_thread(self._sync.placement, job_id)

    async def profile(self, job_id: str) -> dict[str, Any]:
        return await call_in_thread(self._sync.profile, job_id)

    def watch(self, job_id: str, *, timeout_s: float | None = None) -> AsyncIterator[Job]:
        return iterate_in_thread(self._sync.watch, job_id, timeout_s=timeout_s)

    async def wait(
        self,
        job_id: str,
        *,
        until: Callable[[Job], bool] = lambda job: job.ended,
        timeout_s: float | None = None,
    ) -> Job:
        return await call_in_thread(self._sync.wait, job_id, until=until, timeout_s=timeout_s)

    async def snapshot(self, job_id: str) -> SnapshotRecord:
        return await call_in_thread(self._sync.snapshot, job_id)

    async def result(self, job_id: str, *, rank: int | None = None) -> bytes:
        return await call_in_thread(self._sync.result, job_id, rank=rank)

    async def results(self, job_id: str) -> ResultsRecord:
        return await call_in_thread(self._sync.results, job_id)

    async def notebook(self, job_id: str) -> bytes:
        return await call_in_thread(self._sync.notebook, job_id)

    async def compare(self, job_id: str, other_id: str) -> ComparisonRecord:
        return await call_in_thread(self._sync.compare, job_id, other_id)

    async def plan_resubmit(self, job_id: str) -> RerunRecord:
        return await call_in_thread(self._sync.plan_resubmit, job_id)

    async def sweep(self, job_id: str) -> SweepRecord:
        return await call_in_thread(self._sync.sweep, job_id)

    async def stop_sweep(self, job_id: str) -> Job:
        return await call_in_thread(self._sync.stop_sweep, job_id)

    def watch_sweep(self, job_id: str) -> AsyncIterator[SweepRecord]:
        return iterate_in_thread(self._sync.watch_sweep, job_id)

    async def files(self, job_id: str) -> WrittenFilesRecord:
        return await call_in_thread(self._sync.files, job_id)

    def list_folder(
        self, job_id: str, path: str = "", *, folder: str = "workdir"
    ) -> AsyncIterator[StoredFileRecord]:
        return iterate_in_thread(self._sync.list_folder, job_id, path, folder=folder)

    async def download(
        self,
        job_id: str,
        *paths: str,
        to: str | os.PathLike[str] = ".",
        folder: str = "workdir",
        replace: bool = False,
        heard: Callable[[Progress], None] | None = None,
    ) -> Download:
        return await call_in_thread(
            self._sync.download, job_id, *paths, to=to, folder=folder, replace=replace, heard=heard
        )

    def logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        return iterate_in_thread(self._sync.logs, job_id, task=task, offset=offset, tail=tail)

    async def lines_offset(self, job_id: str, lines: int, *, task: int | None = None) -> int:
        return await call_in_thread(self._sync.lines_offset, job_id, lines, task=task)

    def follow_logs(
        self, job_id: str, *, task: int | None = None, offset: int = 0, tail: int | None = None
    ) -> AsyncIterator[bytes]:
        return iterate_in_thread(
            self._sync.follow_logs, job_id, task=task, offset=offset, tail=tail
        )


class AsyncSessions:
    """Asynchronous counterpart of ``Sessions``: the same methods as coroutines."""

    def __init__(self, sync: Sessions) -> None:
        self._sync = sync

    async def start(
        self,
        template: str | None = None,
        *,
        job_file: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Job:
        return await call_in_thread(self._sync.start, template, job_file=job_file, key=key)

    async def get(self, session_id: str) -> Job:
        return await call_in_thread(self._sync.get, session_id)

    def list(self, **query: Any) -> AsyncIterator[Job]:
        return iterate_in_thread(self._sync.list, **query)

    async def open(self, session_id: str, app: str | None = None) -> str:
        return await call_in_thread(self._sync.open, session_id, app)

    async def extend(self, session_id: str, duration: str) -> Job:
        return await call_in_thread(self._sync.extend, session_id, duration)

    async def keep(self, session_id: str) -> Job:
        return await call_in_thread(self._sync.keep, session_id)

    async def stop(self, session_id: str) -> Job:
        return await call_in_thread(self._sync.stop, session_id)

    async def relaunch(self, session_id: str, *, key: str | None = None) -> Job:
        return await call_in_thread(self._sync.relaunch, session_id, key=key)

    async def resume(self, session_id: str, *, key: str | None = None) -> Job:
        return await call_in_thread(self._sync.resume, session_id, key=key)

    async def plan_ranks(self, session_id: str, ranks: int, **options: Any) -> Plan:
        return await call_in_thread(self._sync.plan_ranks, session_id, ranks, **options)

    async def start_ranks(
        self, session_id: str, ranks: int, *, key: str | None = None, **options: Any
    ) -> Job:
        return await call_in_thread(self._sync.start_ranks, session_id, ranks, key=key, **options)

    def ranks(self, session_id: str, *, live: bool = False) -> AsyncIterator[Job]:
        return iterate_in_thread(self._sync.ranks, session_id, live=live)

    async def release_ranks(self, session_id: str, group_id: str | None = None) -> Sequence[Job]:
        return await call_in_thread(self._sync.release_ranks, session_id, group_id)

    async def wait_ready(self, session_id: str, *, timeout_s: float | None = None) -> Job:
        return await call_in_thread(self._sync.wait_ready, session_id, timeout_s=timeout_s)


class AsyncTemplates:
    """Asynchronous counterpart of ``Templates``: the same methods as coroutines."""

    def __init__(self, sync: Templates) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[Template]:
        return await call_in_thread(self._sync.list)

    async def problems(self) -> builtins.list[TemplateProblemRecord]:
        return await call_in_thread(self._sync.problems)

    async def get(self, name: str) -> Template:
        return await call_in_thread(self._sync.get, name)


class AsyncNodes:
    """Asynchronous counterpart of ``Nodes``: the same methods as coroutines."""

    def __init__(self, sync: Nodes) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[Node]:
        return await call_in_thread(self._sync.list)

    async def partitions(self) -> builtins.list[PartitionRecord]:
        return await call_in_thread(self._sync.partitions)

    async def capacity(self) -> builtins.list[dict[str, Any]]:
        return await call_in_thread(self._sync.capacity)

    async def load(self, period: str = "day", partition: str | None = None) -> dict[str, Any]:
        return await call_in_thread(self._sync.load, period, partition)

    async def queues(self, period: str = "day") -> dict[str, Any]:
        return await call_in_thread(self._sync.queues, period)

    async def topology(self) -> dict[str, Any]:
        return await call_in_thread(self._sync.topology)

    def history(
        self, name: str, *, limit: int | None = None, most: int | None = None
    ) -> AsyncIterator[NodeEventRecord]:
        return iterate_in_thread(self._sync.history, name, limit=limit, most=most)

    async def drain(self, name: str, reason: str) -> Node:
        return await call_in_thread(self._sync.drain, name, reason)

    async def resume(self, name: str) -> Node:
        return await call_in_thread(self._sync.resume, name)


class AsyncTokens:
    """Asynchronous counterpart of ``Tokens``: the same methods as coroutines."""

    def __init__(self, sync: Tokens) -> None:
        self._sync = sync

    async def list(self, *, user: str | None = None) -> builtins.list[Token]:
        return await call_in_thread(self._sync.list, user=user)

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read", "write"),
        expires_in: str | None = "30d",
        user: str | None = None,
    ) -> Token:
        return await call_in_thread(
            self._sync.create, name, scopes=scopes, expires_in=expires_in, user=user
        )

    async def revoke(self, token_id: str) -> None:
        await call_in_thread(self._sync.revoke, token_id)

    async def login_link(self) -> LoginLinkRecord:
        return await call_in_thread(self._sync.login_link)


class AsyncUsers:
    """Asynchronous counterpart of ``Users``: the same methods as coroutines."""

    def __init__(self, sync: Users) -> None:
        self._sync = sync

    def list(self) -> AsyncIterator[UserListItemRecord]:
        return iterate_in_thread(self._sync.list)

    async def get(self, name: str) -> User:
        return await call_in_thread(self._sync.get, name)

    async def create(
        self,
        name: str,
        *,
        password: str | None = None,
        display_name: str | None = None,
        mail: str | None = None,
        role: str = "user",
        default_project: str | None = None,
    ) -> User:
        return await call_in_thread(
            self._sync.create,
            name,
            password=password,
            display_name=display_name,
            mail=mail,
            role=role,
            default_project=default_project,
        )

    async def change(self, name: str, **changes: Any) -> User:
        return await call_in_thread(self._sync.change, name, **changes)

    async def protection(self, name: str) -> ProtectionRecord:
        return await call_in_thread(self._sync.protection, name)

    async def reset_link(self, name: str) -> LoginLinkRecord:
        return await call_in_thread(self._sync.reset_link, name)

    async def unlock(self, name: str) -> None:
        await call_in_thread(self._sync.unlock, name)

    async def reset_second_factor(self, name: str) -> None:
        await call_in_thread(self._sync.reset_second_factor, name)

    async def sign_out(self, name: str) -> int:
        return await call_in_thread(self._sync.sign_out, name)


class AsyncAccount:
    """Asynchronous counterpart of ``Account``: the same methods as coroutines."""

    def __init__(self, sync: Account) -> None:
        self._sync = sync

    async def sign_ins(self) -> builtins.list[SignInRecord]:
        return await call_in_thread(self._sync.sign_ins)

    async def revoke_sign_in(self, sign_in_id: str) -> None:
        await call_in_thread(self._sync.revoke_sign_in, sign_in_id)

    async def revoke_all_sign_ins(self) -> int:
        return await call_in_thread(self._sync.revoke_all_sign_ins)


class AsyncProjects:
    """Asynchronous counterpart of ``Projects``: the same methods as coroutines."""

    def __init__(self, sync: Projects) -> None:
        self._sync = sync

    async def list(self, *, state: str | None = None) -> builtins.list[ProjectRecord]:
        return await call_in_thread(self._sync.list, state=state)

    async def get(self, name: str) -> ProjectRecord:
        return await call_in_thread(self._sync.get, name)

    async def create(
        self,
        name: str,
        *,
        title: str = "",
        description: str = "",
        reason: str | None = None,
        expires_at: datetime | None = None,
        manager: str | None = None,
    ) -> ProjectRecord:
        return await call_in_thread(
            self._sync.create,
            name,
            title=title,
            description=description,
            reason=reason,
            expires_at=expires_at,
            manager=manager,
        )

    async def update(
        self, name: str, *, title: str | None = None, description: str | None = None
    ) -> ProjectRecord:
        return await call_in_thread(self._sync.update, name, title=title, description=description)

    async def describe(
        self, name: str, *, title: str | None = None, description: str | None = None
    ) -> ProjectRecord:
        return await call_in_thread(self._sync.describe, name, title=title, description=description)

    async def approve(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        budget: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> ProjectRecord:
        return await call_in_thread(
            self._sync.approve, name, expires_at=expires_at, budget=budget, limits=limits
        )

    async def decline(self, name: str, reason: str) -> ProjectRecord:
        return await call_in_thread(self._sync.decline, name, reason)

    async def close(self, name: str, reason: str = "") -> ProjectRecord:
        return await call_in_thread(self._sync.close, name, reason)

    async def reopen(self, name: str) -> ProjectRecord:
        return await call_in_thread(self._sync.reopen, name)

    async def request_extension(
        self, name: str, until: datetime, reason: str = ""
    ) -> ProjectRecord:
        return await call_in_thread(self._sync.request_extension, name, until, reason)

    async def ask_for_time(self, name: str, until: datetime, reason: str = "") -> ProjectRecord:
        return await call_in_thread(self._sync.ask_for_time, name, until, reason)

    async def set_end(self, name: str, expires_at: datetime | None) -> ProjectRecord:
        return await call_in_thread(self._sync.set_end, name, expires_at)

    async def set_budget(self, name: str, budget: Mapping[str, Any]) -> ProjectRecord:
        return await call_in_thread(self._sync.set_budget, name, budget)

    async def set_retention(
        self,
        name: str,
        *,
        keep_jobs: str | int | None = None,
        keep_failed_jobs: str | int | None = None,
    ) -> ProjectRecord:
        return await call_in_thread(
            self._sync.set_retention, name, keep_jobs=keep_jobs, keep_failed_jobs=keep_failed_jobs
        )

    async def balance(self, name: str) -> BalanceRecord:
        return await call_in_thread(self._sync.balance, name)

    def waiting(
        self, name: str, *, limit: int | None = None, most: int | None = None
    ) -> AsyncIterator[WaitingJobRecord]:
        return iterate_in_thread(self._sync.waiting, name, limit=limit, most=most)

    async def invitations(self, name: str) -> builtins.list[InvitationRecord]:
        return await call_in_thread(self._sync.invitations, name)

    async def invite(
        self, name: str, *, role: str = "member", max_uses: int = 1, lifetime: int | str = "7d"
    ) -> InvitationLinkRecord:
        return await call_in_thread(
            self._sync.invite, name, role=role, max_uses=max_uses, lifetime=lifetime
        )

    async def revoke_invitation(self, name: str, invitation: str) -> None:
        await call_in_thread(self._sync.revoke_invitation, name, invitation)

    async def preview_invitation(self, token: str) -> InvitationPreviewRecord:
        return await call_in_thread(self._sync.preview_invitation, token)

    async def look_at_invitation(self, token: str) -> InvitationPreviewRecord:
        return await call_in_thread(self._sync.look_at_invitation, token)

    async def join(self, token: str) -> MembershipRecord:
        return await call_in_thread(self._sync.join, token)

    async def members(self, name: str) -> builtins.list[MembershipRecord]:
        return await call_in_thread(self._sync.members, name)

    async def put_member(
        self,
        name: str,
        user: str,
        *,
        limits: Mapping[str, Any] | None = None,
        role: str | None = None,
        default: bool = False,
    ) -> MembershipRecord:
        return await call_in_thread(
            self._sync.put_member, name, user, limits=limits, role=role, default=default
        )

    async def remove_member(self, name: str, user: str) -> None:
        await call_in_thread(self._sync.remove_member, name, user)

    async def limits(self, name: str) -> ProjectLimitsRecord:
        return await call_in_thread(self._sync.limits, name)

    async def set_limits(self, name: str, limits: Mapping[str, Any]) -> ProjectLimitsRecord:
        return await call_in_thread(self._sync.set_limits, name, limits)

    async def set_own_limits(self, name: str, limits: Mapping[str, Any]) -> ProjectLimitsRecord:
        return await call_in_thread(self._sync.set_own_limits, name, limits)

    async def usage(
        self, name: str | None = None, *, month: str | None = None
    ) -> UsageReportRecord:
        return await call_in_thread(self._sync.usage, name, month=month)

    async def report(self, name: str, *, month: str | None = None) -> ProjectReportRecord:
        return await call_in_thread(self._sync.report, name, month=month)

    async def usage_csv(
        self, name: str, *, month: str | None = None, since: str | None = None
    ) -> str:
        return await call_in_thread(self._sync.usage_csv, name, month=month, since=since)

    async def compare(self) -> SyncReportRecord:
        return await call_in_thread(self._sync.compare)

    async def sync(self, digest: str) -> SyncReportRecord:
        return await call_in_thread(self._sync.sync, digest)


class AsyncImages:
    """Asynchronous counterpart of ``Images``: the same methods as coroutines."""

    def __init__(self, sync: Images) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[ImageRecord]:
        return await call_in_thread(self._sync.list)

    async def get(self, reference: str) -> ImageRecord:
        return await call_in_thread(self._sync.get, reference)

    async def register(
        self,
        image: Mapping[str, Any],
        artifacts: Sequence[Mapping[str, Any]],
        *,
        packages: Sequence[Mapping[str, str]] = (),
        projects: Sequence[str] = (),
    ) -> ImageRecord:
        return await call_in_thread(
            self._sync.register, image, artifacts, packages=packages, projects=projects
        )

    async def retire(self, reference: str) -> ImageRecord:
        return await call_in_thread(self._sync.retire, reference)

    async def offer(self, reference: str) -> ImageRecord:
        return await call_in_thread(self._sync.offer, reference)

    async def set_projects(self, reference: str, projects: Sequence[str]) -> ImageRecord:
        return await call_in_thread(self._sync.set_projects, reference, projects)

    async def note_verification(self, reference: str, damage: str | None) -> ImageRecord:
        return await call_in_thread(self._sync.note_verification, reference, damage)

    async def remove(self, reference: str) -> builtins.list[ArtifactRecord]:
        return await call_in_thread(self._sync.remove, reference)


class AsyncDatasets:
    """Asynchronous counterpart of ``Datasets``: the same methods as coroutines."""

    def __init__(self, sync: Datasets) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[DatasetRecord]:
        return await call_in_thread(self._sync.list)

    async def versions(self, name: str) -> builtins.list[DatasetRecord]:
        return await call_in_thread(self._sync.versions, name)

    async def get(self, reference: str) -> DatasetRecord:
        return await call_in_thread(self._sync.get, reference)

    def manifest(self, reference: str) -> AsyncIterator[bytes]:
        return iterate_in_thread(self._sync.manifest, reference)

    async def check(self, dataset: Mapping[str, Any]) -> None:
        await call_in_thread(self._sync.check, dataset)

    async def add(
        self, dataset: Mapping[str, Any], *, manifest: str, text: Iterable[bytes]
    ) -> DatasetRecord:
        return await call_in_thread(self._sync.add, dataset, manifest=manifest, text=text)

    async def upload_manifest(self, digest: str, text: Iterable[bytes]) -> None:
        await call_in_thread(self._sync.upload_manifest, digest, text)

    async def grant(self, reference: str, project: str) -> DatasetRecord:
        return await call_in_thread(self._sync.grant, reference, project)

    async def revoke(self, reference: str, project: str) -> DatasetRecord:
        return await call_in_thread(self._sync.revoke, reference, project)

    async def retire(self, reference: str, *, retired: bool = True) -> DatasetRecord:
        return await call_in_thread(self._sync.retire, reference, retired=retired)

    async def note_verification(
        self, reference: str, *, manifest: str, damaged_files: int
    ) -> DatasetRecord:
        return await call_in_thread(
            self._sync.note_verification, reference, manifest=manifest, damaged_files=damaged_files
        )


class AsyncTrees:
    """Asynchronous counterpart of ``Trees``: the same methods as coroutines."""

    def __init__(self, sync: Trees) -> None:
        self._sync = sync

    async def limits(self) -> TreeLimitsRecord:
        return await call_in_thread(self._sync.limits)

    async def upload(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        files: Mapping[str, bytes] | None = None,
        heard: Callable[[Progress], None] | None = None,
    ) -> TreeRecord:
        return await call_in_thread(self._sync.upload, folder, files=files, heard=heard)


class AsyncFunctions:
    """Asynchronous counterpart of ``Functions``: the same methods as coroutines."""

    def __init__(self, sync: Functions) -> None:
        self._sync = sync

    async def submit(
        self,
        fn: Callable[..., T],
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        nodes: int = 1,
        gpus: int | str | None = None,
        ranks_per_node: int | None = None,
        max_duration: str | None = None,
        python: str | None = None,
        sync: str | os.PathLike[str] | None = None,
        **job: Any,
    ) -> Future[T]:
        return await call_in_thread(
            lambda: self._sync.submit(
                fn,
                *args,
                kwargs=kwargs,
                nodes=nodes,
                gpus=gpus,
                ranks_per_node=ranks_per_node,
                max_duration=max_duration,
                python=python,
                sync=sync,
                **job,
            )
        )

    async def map(
        self,
        fn: Callable[[Item], T],
        items: Iterable[Item],
        *,
        max_parallel: int | None = None,
        nodes: int = 1,
        gpus: int | str | None = None,
        ranks_per_node: int | None = None,
        max_duration: str | None = None,
        python: str | None = None,
        sync: str | os.PathLike[str] | None = None,
        **job: Any,
    ) -> FutureArray[T]:
        return await call_in_thread(
            lambda: self._sync.map(
                fn,
                items,
                max_parallel=max_parallel,
                nodes=nodes,
                gpus=gpus,
                ranks_per_node=ranks_per_node,
                max_duration=max_duration,
                python=python,
                sync=sync,
                **job,
            )
        )

    async def future(self, job_id: str) -> Future[Any]:
        return await call_in_thread(self._sync.future, job_id)

    async def futures(self, job_id: str) -> FutureArray[Any]:
        return await call_in_thread(self._sync.futures, job_id)


class AsyncStorageAreas:
    """Asynchronous counterpart of ``StorageAreas``: the same methods as coroutines."""

    def __init__(self, sync: StorageAreas) -> None:
        self._sync = sync

    async def get(self, project: str | None = None) -> StorageViewRecord:
        return await call_in_thread(self._sync.get, project)

    async def jobs(self) -> JobFoldersRecord:
        return await call_in_thread(self._sync.jobs)


class AsyncAdministration:
    """Asynchronous counterpart of ``Administration``: the same methods as coroutines."""

    def __init__(self, sync: Administration) -> None:
        self._sync = sync

    async def health(self) -> HealthRecord:
        return await call_in_thread(self._sync.health)

    async def import_topology(self, name: str, content: str, *, node: str | None = None) -> None:
        await call_in_thread(self._sync.import_topology, name, content, node=node)

    async def forget_topology(self, name: str) -> None:
        await call_in_thread(self._sync.forget_topology, name)

    async def settings(self) -> builtins.list[SettingRecord]:
        return await call_in_thread(self._sync.settings)


class AsyncAudit:
    """Asynchronous counterpart of ``Audit``: the same methods as coroutines."""

    def __init__(self, sync: Audit) -> None:
        self._sync = sync

    def list(
        self, *, limit: int | None = None, **where: str | datetime | None
    ) -> AsyncIterator[AuditEntryRecord]:
        return iterate_in_thread(self._sync.list, limit=limit, **where)

    def export(
        self, *, as_csv: bool = False, **where: str | datetime | None
    ) -> AsyncIterator[bytes]:
        return iterate_in_thread(self._sync.export, as_csv=as_csv, **where)

    async def check(self) -> AuditCheckRecord:
        return await call_in_thread(self._sync.check)


class AsyncAnnouncements:
    """Asynchronous counterpart of ``Announcements``: the same methods as coroutines."""

    def __init__(self, sync: Announcements) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[AnnouncementRecord]:
        return await call_in_thread(self._sync.list)

    def all(self) -> AsyncIterator[AnnouncementRecord]:
        return iterate_in_thread(self._sync.all)

    async def get(self, announcement_id: str) -> AnnouncementRecord:
        return await call_in_thread(self._sync.get, announcement_id)

    async def create(
        self,
        text: str,
        *,
        severity: str = "info",
        projects: Sequence[str] = (),
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> AnnouncementRecord:
        return await call_in_thread(
            self._sync.create,
            text,
            severity=severity,
            projects=projects,
            starts_at=starts_at,
            ends_at=ends_at,
        )

    async def change(self, announcement_id: str, **changes: Any) -> AnnouncementRecord:
        return await call_in_thread(self._sync.change, announcement_id, **changes)

    async def delete(self, announcement_id: str) -> None:
        await call_in_thread(self._sync.delete, announcement_id)

    async def dismiss(self, announcement_id: str) -> None:
        await call_in_thread(self._sync.dismiss, announcement_id)


class AsyncMaintenanceSwitch:
    """Asynchronous counterpart of ``MaintenanceSwitch``: the same methods as coroutines."""

    def __init__(self, sync: MaintenanceSwitch) -> None:
        self._sync = sync

    async def status(self) -> MaintenanceRecord:
        return await call_in_thread(self._sync.status)

    async def on(
        self,
        message: str = "",
        *,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
    ) -> MaintenanceRecord:
        return await call_in_thread(self._sync.on, message, starts_at=starts_at, ends_at=ends_at)

    async def off(self) -> MaintenanceRecord:
        return await call_in_thread(self._sync.off)


class AsyncPreferences:
    """Asynchronous counterpart of ``Preferences``: the same methods as coroutines."""

    def __init__(self, sync: Preferences) -> None:
        self._sync = sync

    async def get(self, key: str) -> dict[str, Any]:
        return await call_in_thread(self._sync.get, key)

    async def put(self, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        return await call_in_thread(self._sync.put, key, value)


class AsyncSecrets:
    """Asynchronous counterpart of ``Secrets``: the same methods as coroutines."""

    def __init__(self, sync: Secrets) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[SecretRecord]:
        return await call_in_thread(self._sync.list)

    async def put(self, name: str, value: str) -> SecretRecord:
        return await call_in_thread(self._sync.put, name, value)

    async def delete(self, name: str) -> None:
        await call_in_thread(self._sync.delete, name)


class AsyncNotifications:
    """Asynchronous counterpart of ``Notifications``: the same methods as coroutines."""

    def __init__(self, sync: Notifications) -> None:
        self._sync = sync

    def list(
        self, *, unread: bool = False, limit: int | None = None, most: int | None = None
    ) -> AsyncIterator[NotificationRecord]:
        return iterate_in_thread(self._sync.list, unread=unread, limit=limit, most=most)

    async def mark_read(self, ids: Sequence[int] | None = None) -> int:
        return await call_in_thread(self._sync.mark_read, ids)

    async def read(self, ids: Sequence[int] | None = None) -> int:
        return await call_in_thread(self._sync.read, ids)

    async def settings(self) -> NotificationSettingsRecord:
        return await call_in_thread(self._sync.settings)

    async def set(
        self,
        choices: Mapping[str, Mapping[str, bool]],
        *,
        mail: str | None = None,
        quiet_until: str | None = None,
    ) -> NotificationSettingsRecord:
        return await call_in_thread(self._sync.set, choices, mail=mail, quiet_until=quiet_until)

    async def test_mail(self) -> DeliveryRecord:
        return await call_in_thread(self._sync.test_mail)

    async def mails(self) -> builtins.list[DeliveryRecord]:
        return await call_in_thread(self._sync.mails)

    async def idle_gpus(self) -> builtins.list[Job]:
        return await call_in_thread(self._sync.idle_gpus)


class AsyncWebhooks:
    """Asynchronous counterpart of ``Webhooks``: the same methods as coroutines."""

    def __init__(self, sync: Webhooks) -> None:
        self._sync = sync

    async def list(self) -> builtins.list[WebhookRecord]:
        return await call_in_thread(self._sync.list)

    async def get(self, webhook_id: str) -> WebhookRecord:
        return await call_in_thread(self._sync.get, webhook_id)

    async def create(self, url: str) -> WebhookRecord:
        return await call_in_thread(self._sync.create, url)

    async def update(
        self, webhook_id: str, *, url: str | None = None, enabled: bool | None = None
    ) -> WebhookRecord:
        return await call_in_thread(self._sync.update, webhook_id, url=url, enabled=enabled)

    async def rotate(self, webhook_id: str) -> WebhookRecord:
        return await call_in_thread(self._sync.rotate, webhook_id)

    async def test(self, webhook_id: str) -> DeliveryRecord:
        return await call_in_thread(self._sync.test, webhook_id)

    async def deliveries(self, webhook_id: str) -> builtins.list[DeliveryRecord]:
        return await call_in_thread(self._sync.deliveries, webhook_id)

    async def delete(self, webhook_id: str) -> None:
        await call_in_thread(self._sync.delete, webhook_id)


class AsyncClient:
    """Client of a platform, which without arguments is found as by the command line."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        platform: Platform | None = None,
        transport: RequestTransport | None = None,
    ) -> None:
        self._sync = Client(url, token, data_dir, platform=platform, transport=transport)
        self.platform = self._sync.platform
        self.jobs = AsyncJobs(self._sync.jobs)
        self.sessions = AsyncSessions(self._sync.sessions)
        self.templates = AsyncTemplates(self._sync.templates)
        self.nodes = AsyncNodes(self._sync.nodes)
        self.tokens = AsyncTokens(self._sync.tokens)
        self.users = AsyncUsers(self._sync.users)
        self.account = AsyncAccount(self._sync.account)
        self.projects = AsyncProjects(self._sync.projects)
        self.images = AsyncImages(self._sync.images)
        self.datasets = AsyncDatasets(self._sync.datasets)
        self.trees = AsyncTrees(self._sync.trees)
        self.functions = AsyncFunctions(self._sync.functions)
        self.storage = AsyncStorageAreas(self._sync.storage)
        self.admin = AsyncAdministration(self._sync.admin)
        self.audit = AsyncAudit(self._sync.audit)
        self.announcements = AsyncAnnouncements(self._sync.announcements)
        self.maintenance = AsyncMaintenanceSwitch(self._sync.maintenance)
        self.preferences = AsyncPreferences(self._sync.preferences)
        self.secrets = AsyncSecrets(self._sync.secrets)
        self.notifications = AsyncNotifications(self._sync.notifications)
        self.webhooks = AsyncWebhooks(self._sync.webhooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: no connection is kept between requests."""

    def __repr__(self) -> str:
        return f"AsyncClient({self.platform.url!r})"

    async def me(self) -> CurrentUserRecord:
        return await call_in_thread(self._sync.me)

    async def ready(self) -> dict[str, Any]:
        return await call_in_thread(self._sync.ready)

    def events(self, after: int | None = None) -> AsyncIterator[Event]:
        return iterate_in_thread(self._sync.events, after)
