"""Terminals of this portal process, and the permission to open them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from pydantic import Field

from aitne.core.errors import (
    Conflict,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    NotSupported,
    RateLimited,
    SchedulerRejected,
    Unavailable,
)
from aitne.core.jobs.states import JobState
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.core.ports.attacher import Attacher, AttachTarget
from aitne.core.ports.unix_account_mapping import Accounts
from aitne.core.sessions.attach_protocol import ShellStart, SshStart
from aitne.core.users.ended_credentials import EndedCredentials
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.controller.run_identification import make_run
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.outside_job_checks import check_not_outside
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.sessions.terminal import Terminal, open_terminal
from aitne.store import Store

TICKET_LIFETIME_S = 60
HOLD_S = 60.0
"""Seconds for which a terminal whose connection broke waits for a new connection."""
MAX_PER_USER = 20
ATTACHED = "job.attached"
"""Event kind which reports that a user opened a terminal in a job."""
_TICKET = "terminal"


class Ticket(Frozen):
    """A secret with which a browser may open one WebSocket to a terminal, once and before
    ``expires_at``.
    """

    ticket: str = Field(description="Send it as the first message; it works once.")
    expires_at: UtcTime = Field(description="Time until which the ticket is valid.")
    node: str = Field(description="Node of the terminal.", examples=["gpu03"])
    nodes: tuple[str, ...] = Field(description="All nodes of the job.", examples=[["gpu03"]])
    account: str = Field(
        description="Unix account of the job: the user name for ssh.", examples=["alice"]
    )


class OpenTerminal:
    """Terminal that this portal process has open. If the connection of its browser breaks, the
    terminal is kept for ``HOLD_S`` seconds, so that the browser can connect again.
    """

    def __init__(self, terminal: Terminal, credential: str, number: int) -> None:
        self.terminal = terminal
        self.credential = credential
        """ID of the credential with which the current connection was opened."""
        self.number = number
        """Number of the current connection; an older connection notices from it that it was
        replaced.
        """
        self.closing: asyncio.TimerHandle | None = None


class TerminalService:
    """Service for terminals in running jobs. Every connection needs a ticket, which is issued only
    if the actor is permitted.
    """

    def __init__(
        self,
        store: Store,
        renderer: Renderer,
        attacher: Attacher | None,
        accounts: Accounts,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._attacher = attacher
        self._accounts = accounts
        self._clock = clock
        self._held: dict[str, OpenTerminal] = {}
        self._opening: dict[str, int] = {}
        self._ends: set[asyncio.Task[None]] = set()

    async def issue_ticket(self, actor: Actor, job_id: UUID, node: str | None) -> Ticket:
        """Issue a ticket with which the actor may open one terminal within a minute.

        Raises:
            NotFound: there is no such job, or the actor may not see it.
            NotAllowed: the job belongs to another user, or the actor is impersonated.
            InvalidInput: the job does not run on that node.
            Conflict: the job does not run.
            NotSupported: the scheduler cannot attach to jobs.
            Unavailable: the job's nodes are not known yet.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_ATTACH, actor, "job", job_id, owner=job.owner, project=job.project
        )
        chosen = self._choose_node(job, node)
        secret = new_secret()
        expires_at = self._clock() + timedelta(seconds=TICKET_LIFETIME_S)
        data = {"job_id": str(job_id), "node": chosen, "credential": actor.credential}
        await self._store.add_single_use_secret(
            _TICKET, hash_secret(secret), actor.name, expires_at, data
        )
        return Ticket(
            ticket=secret,
            expires_at=expires_at,
            node=chosen,
            nodes=job.nodes,
            account=job.account or await self._get_unix_account_name(job.owner),
        )

    async def get_unix_account_name(self, actor: Actor) -> str:
        """Return the Unix account under which the actor's jobs run, which is also the user name for
        ssh.

        Raises:
            InvalidInput: the actor has no account that jobs may run as.
        """
        require_permission(PolicyAction.USER_READ, actor, "user", actor.name, owner=actor.name)
        return await self._get_unix_account_name(actor.name)

    async def _get_unix_account_name(self, user: str) -> str:
        # A directory service may be slow to answer.
        return (await asyncio.to_thread(self._accounts.get_account, user)).user

    async def open(
        self, job_id: UUID, ticket: str, start: ShellStart | SshStart
    ) -> tuple[str, Terminal]:
        """Start a shell or an SSH server in the allocation of the running job.

        Returns the secret name of the terminal, and the terminal.

        Raises:
            NotAuthenticated: the ticket is invalid, was used, or is for another job.
            Conflict: the job no longer runs, or the start was refused.
            RateLimited: the user has too many terminals.
            NotSupported, Unavailable: the program cannot be started.
        """
        owner, node, credential = await self._redeem_ticket(job_id, ticket)
        job = await self._store.get_job(job_id)
        if job.owner != owner:
            raise NotAuthenticated("This ticket is for another job. Ask for a new one.")
        chosen = self._choose_node(job, node)
        self._increment_count(owner)
        try:
            terminal = await self._start_program(job, chosen, owner, start)
        finally:
            self._opening[owner] -= 1
            if not self._opening[owner]:
                del self._opening[owner]
        name = new_secret()
        self._held[name] = OpenTerminal(terminal, credential, 1)
        details = {"by": owner, "node": chosen, "kind": start.kind}
        try:
            # The credential may have ended while the program started.
            await self._check_credential(credential, job_id)
            await self._store.add_job_event(job_id, ATTACHED, details)
        except BaseException:
            await self._end_terminal(name)  # its name was not returned, so no request can end it
            raise
        return name, terminal

    async def resume(self, job_id: UUID, ticket: str, name: str) -> Terminal:
        """Return the terminal with the secret name ``name`` for a browser whose connection broke.

        Raises:
            NotAuthenticated: the ticket is invalid.
            NotFound: the terminal has ended meanwhile, or belongs to another user.
        """
        owner, _, credential = await self._redeem_ticket(job_id, ticket)
        entry = self._held.get(name)
        if entry is None or (entry.terminal.owner, entry.terminal.job_id) != (owner, job_id):
            raise NotFound("terminal", "that was left")
        if entry.closing is not None:
            entry.closing.cancel()
            entry.closing = None
        entry.number += 1
        entry.credential = credential
        return entry.terminal

    def connection(self, name: str) -> int:
        """Return the number of the current connection to the terminal ``name``; 0 if the terminal
        has ended.
        """
        entry = self._held.get(name)
        return 0 if entry is None else entry.number

    async def end_connection(self, name: str, number: int, *, keep_open: bool) -> None:
        """End the connection ``number`` to the terminal ``name``. Does nothing if a newer
        connection has replaced it.

        Args:
            keep_open: whether the terminal is kept for ``HOLD_S`` seconds, so that its user can connect
                again. If not, it ends.
        """
        entry = self._held.get(name)
        if entry is None or entry.number != number:
            return
        if not keep_open or entry.terminal.has_ended:
            await self._end_terminal(name)
            return
        loop = asyncio.get_running_loop()
        entry.closing = loop.call_later(HOLD_S, self._end_in_background, name)

    def _end_in_background(self, name: str) -> None:
        task = asyncio.create_task(self._end_terminal(name), name="end a terminal")
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def _end_terminal(self, name: str) -> None:
        entry = self._held.pop(name, None)
        if entry is not None:
            if entry.closing is not None:
                entry.closing.cancel()
            await entry.terminal.close()

    async def end_terminals_of(self, ended: EndedCredentials) -> None:
        """End all terminals that were opened with a credential that has ended."""
        names = [
            name
            for name, entry in self._held.items()
            if ended.includes(entry.terminal.owner, entry.credential)
        ]
        await asyncio.gather(*(self._end_terminal(name) for name in names))

    async def close(self) -> None:
        """End all terminals that this portal process has open, and wait until they have ended."""
        await asyncio.gather(*(self._end_terminal(name) for name in list(self._held)))
        await asyncio.gather(*self._ends, return_exceptions=True)

    # --- the parts -------------------------------------------------------------------------------

    async def _redeem_ticket(self, job_id: UUID, ticket: str) -> tuple[str, str, str]:
        """Use up a ticket; return its user, its node, and the credential that asked for it."""
        taken = await self._store.consume_single_use_secret(
            _TICKET, hash_secret(ticket), self._clock()
        )
        user = None if taken is None else await self._store.get_user(taken[0])
        if taken is None or user is None or user.disabled or taken[1]["job_id"] != str(job_id):
            raise _make_invalid_ticket_error(job_id)
        credential = str(taken[1].get("credential"))
        await self._check_credential(credential, job_id)
        return taken[0], str(taken[1]["node"]), credential

    async def _check_credential(self, credential: str, job_id: UUID) -> None:
        """Check that the credential with which a ticket was requested has not ended since. Raises
        ``NotAuthenticated``.
        """
        if not await self._store.is_credential_valid(credential, self._clock()):
            raise _make_invalid_ticket_error(job_id)

    def _choose_node(self, job: Job, node: str | None) -> str:
        if self._attacher is None:
            raise NotSupported("This platform's scheduler cannot start programs in a running job.")
        check_not_outside(job, "entered by a terminal")
        if job.is_array:
            raise Conflict(
                "An array job has no process of its own. Open a terminal in one of its tasks."
            )
        if not job.nodes and job.state in (JobState.RUNNING, JobState.READY):
            raise Unavailable(
                "The scheduler has not reported yet on which nodes the job runs. Try again soon."
            )
        if not job.is_attachable:
            advice = (
                "Start it again first." if job.state.is_terminal else "Wait until it is RUNNING."
            )
            raise Conflict(f"A terminal cannot be opened in this job: it is {job.state}. {advice}")
        if node is not None and node not in job.nodes:
            raise InvalidInput.field(
                "node", "the job does not run there", value=node, allowed=", ".join(job.nodes)
            )
        return node or job.nodes[0]

    def _increment_count(self, owner: str) -> None:
        """Increment the number of the user's terminals. The caller must decrement it again.

        Raises:
            RateLimited: the user has the maximum number of terminals.
        """
        has = sum(entry.terminal.owner == owner for entry in self._held.values())
        if has + self._opening.get(owner, 0) >= MAX_PER_USER:
            raise RateLimited(
                f"You have {MAX_PER_USER} terminals and SSH connections open. Close one first.",
                10.0,
            )
        self._opening[owner] = self._opening.get(owner, 0) + 1

    async def _start_program(
        self, job: Job, node: str, owner: str, start: ShellStart | SshStart
    ) -> Terminal:
        if self._attacher is None:
            raise NotSupported("This platform's scheduler cannot start programs in a running job.")
        target = AttachTarget(
            run=make_run(job),
            place=self._renderer.get_location(job),
            node=node,
            agent=self._renderer.agent_command,
        )
        try:
            connection = await self._attacher.attach(target)
        except SchedulerRejected as error:
            raise Conflict(error.message) from error
        return await open_terminal(connection, start, node=node, owner=owner, job_id=job.id)


def _make_invalid_ticket_error(job_id: UUID) -> NotAuthenticated:
    return NotAuthenticated(
        "This ticket was used before, has expired, or is for another job. Ask for a new one with "
        f"POST /api/v1/jobs/{job_id}/terminal."
    )
