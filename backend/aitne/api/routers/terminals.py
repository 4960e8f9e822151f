"""Routes of terminals in a running job: a ticket, then a WebSocket."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, WebSocket
from pydantic import Field

from aitne.api.dependencies import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.api.routers.jobs import JobId
from aitne.api.terminal_socket import serve_terminal
from aitne.core.models.base import AskedFlag, Frozen, Strict
from aitne.services.sessions.terminals import Ticket

router = APIRouter(prefix=V1, tags=["jobs"])


class TerminalRequest(Strict):
    """Node of the job on which a terminal is requested."""

    node: str | None = Field(
        None,
        max_length=253,
        description="One of the job's nodes; null: its first one.",
        examples=["gpu03"],
    )


class SshFacts(Frozen):
    """Settings that an SSH client needs to connect to a job."""

    account: str = Field(description="The user name for `ssh`.", examples=["alice"])


@router.post("/jobs/{job_id}/terminal", status_code=201)
async def create_terminal(
    job_id: JobId, body: TerminalRequest, actor: Writer, platform: PlatformDep
) -> Ticket:
    """Return a ticket that opens one terminal, or one SSH connection, in your running job.

    Open the WebSocket `/api/v1/jobs/{job_id}/terminal` within a minute and send the ticket in its
    first message. The messages that follow are described in docs/reference/terminal-protocol.md.
    """
    return await platform.terminals.issue_ticket(actor, job_id, body.node)


@router.get("/ssh")
async def get_ssh(actor: Reader, platform: PlatformDep) -> SshFacts:
    """Return the settings that an SSH client needs to reach your jobs."""
    return SshFacts(account=await platform.terminals.get_unix_account_name(actor))


@router.websocket("/jobs/{job_id}/terminal")
async def open_terminal(
    websocket: WebSocket,
    job_id: JobId,
    hold: Annotated[
        AskedFlag, Query(description="Keep the terminal for a minute if the connection breaks.")
    ] = False,
) -> None:
    """Serve a terminal in a running job. The ticket in the first message authorizes it."""
    await serve_terminal(websocket, job_id, hold=hold)
