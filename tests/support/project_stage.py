"""A project with members, and the controller's project pass, for tests of projects over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from aitne.core.models.user import Role
from aitne.services.controller.project_expiry import ProjectWatch
from aitne.services.projects.monthly_usage import UsageMonths
from tests.support.stage import Stage

API = "/api/v1"


async def ada_leads(stage: Stage) -> tuple[str, str]:
    """Create the project vision with ada as its manager and bob as a member.

    Returns:
        The tokens of ada and of an administrator.
    """
    ada = await stage.add_user("ada")
    await stage.add_user("bob")
    root = await stage.add_user("root", Role.ADMIN)
    await stage.add_node()
    tokens = await stage.token(ada), await stage.token(root)
    async with stage.client(tokens[0]) as client:
        await ok(client.post(f"{API}/projects", json={"name": "vision", "reason": "A grant"}), 201)
    async with stage.client(tokens[1]) as client:
        await ok(client.post(f"{API}/projects/vision/approve", json={}))
    await stage.store.save_member("vision", "bob", actor="ada")
    return tokens


async def ok(call: Any, status: int = 200) -> Any:
    answer: httpx.Response = await call
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


def watch(stage: Stage, epoch: int) -> ProjectWatch:
    class Leads:
        pass

    leads: Any = Leads()
    leads.epoch = epoch
    months = UsageMonths(stage.store, stage.accounting, stage.clock)
    return ProjectWatch(stage.store, months, leads, stage.clock)
