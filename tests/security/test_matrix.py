"""Every route, called by every role, answers as `matrix.py` says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aitne.api.openapi import make_document
from aitne.api.routes import bare_app
from aitne.api.session_token_operations import OPERATIONS as IN_SESSIONS
from aitne.core.models.access_token import Scope
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.models.project import ProjectRole
from aitne.core.models.user import Actor
from aitne.store.job_snapshots_and_files import DocumentKind
from tests.security.matrix import ENDLESS, ROUTES, WHO
from tests.support.catalog_stage import Catalogue, SavedCatalogue, open_catalogue
from tests.support.jobs import (
    make_array,
    make_job,
    make_rank_group,
    make_session,
    store_job_token,
)
from tests.support.session_tokens import session_token

PROFILE = {"schema": 1, "written_at": "2026-03-01T12:00:00Z", "size": 2, "steps": 1}
SWEEP = {"method": "grid", "parameters": {"lr": [0.1, 0.01]}, "metric": "loss", "goal": "min"}
VALUES = {"updated_at": "2026-03-01T12:00:00Z", "values": {"loss": 0.5}}
SNAPSHOT = {"taken_at": "2026-03-01T12:00:00Z", "workdir": "/home/ada", "git": None}
KINDS = ("job", "session", "sweep", "notebook")
DOCUMENT = make_document(bare_app())
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}


def test_every_route_says_who_may_call_it() -> None:
    assert set(OPERATIONS) - ENDLESS == set(ROUTES)


def test_session_tokens_permit_only_operations_of_the_matrix() -> None:
    permitted = {name for name, route in ROUTES.items() if route.session}
    assert permitted | ENDLESS == IN_SESSIONS


Known = dict[str, dict[str, str]]
"""For each kind, what stands for the parameters of paths."""


@pytest.fixture(scope="module")
def saved(
    tmp_path_factory: pytest.TempPathFactory, blank: Path
) -> Callable[..., tuple[SavedCatalogue, Known]]:
    """Ask for some kinds; the database with all of them is made once."""

    async def make(*kinds: str) -> tuple[SavedCatalogue, Known]:
        folder = tmp_path_factory.mktemp("place")
        with pytest.MonkeyPatch.context() as patch:
            async with open_catalogue(folder, blank, patch) as place:
                known = {kind: await _prepare(place, kind) for kind in kinds}
                await _add_tokens(place)
        copy = tmp_path_factory.mktemp("copies") / "place"
        return SavedCatalogue.save(folder, copy, place.tokens), known

    return cache(lambda *kinds: asyncio.run(make(*kinds)))


@pytest.fixture
def prepared(
    request: pytest.FixtureRequest, saved: Callable[..., tuple[SavedCatalogue, Known]]
) -> tuple[SavedCatalogue, Known]:
    """The saved catalogue with the objects that the test's operation needs; with all kinds without one."""
    operation = request.node.callspec.params.get("operation")
    return saved(*(KINDS if operation is None else [ROUTES[operation].kind]))


@pytest.fixture
async def place(
    prepared: tuple[SavedCatalogue, Known], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Catalogue]:
    async with prepared[0].opened(monkeypatch) as place:
        if "notebook" in prepared[1]:
            written = {"executed.ipynb": b"{}", "executed.html": b"<p>"}
            place.stage.files.written[UUID(prepared[1]["notebook"]["job_id"]), 1] = written
        yield place


@pytest.fixture
def known(prepared: tuple[SavedCatalogue, Known]) -> Known:
    return prepared[1]


async def _prepare(place: Catalogue, kind: str) -> dict[str, str]:
    """Create an object of that kind for ada; return the values of path parameters."""
    stage = place.stage
    epoch = await stage.add_node()
    make = make_session if kind == "session" else make_job
    job, tasks = make(owner="ada", project="vision"), []
    if kind == "notebook":
        job = make_job(owner="ada", project="vision", spec={"notebook": {"path": "a.ipynb"}})
    group = job
    if kind == "sweep":
        job, tasks = make_array("0-1", owner="ada", project="vision", spec={"sweep": SWEEP})
    await stage.store.create_job(job, tasks)
    if kind == "session":
        await stage.make_ready(job)
        await stage.store.create_job(group := make_rank_group(job))
    await store_job_token(stage.store, job.id, str(job.id), epoch=epoch)
    await stage.store.save_profile(job.id, PROFILE)
    await stage.store.save_snapshot(job.id, SNAPSHOT)
    await stage.store.save_document(job.id, DocumentKind.FILES, {"folder": "/home/ada"})
    await stage.store.save_document(job.id, DocumentKind.VALUES, VALUES)
    if not await stage.store.list_images():
        await place.put_image("base", projects=("vision",))
        await place.add_dataset(project="vision")
        # Of the project as well, and not one of those who ask.
        await stage.add_user("lea", project="vision")
    ada = await _actor(place, "ada")
    token, _ = await stage.platform.users.create_token(
        ada, name="spare", scopes=frozenset({Scope.READ}), lifetime_s=None
    )
    await place.stage.platform.user_secrets.set_secret(ada, "API_KEY", "hidden")
    imported = {"switches": [], "nodes": []}
    await stage.store.save_topology(TopologyOrigin.IMPORT, "topology.conf", imported)
    return {
        "job_id": str(job.id),
        "group_id": str(group.id),
        "token_id": token.id,
        "sha256": "0" * 64,
        "user": "lea",
        "project": "vision",
        "users": "ada",
        "projects": "vision",
        "images": "base",
        "datasets": "photos",
        "templates": "jupyterlab",
        "nodes": "node01",
        "secrets": "API_KEY",
        "topology": "topology.conf",
        "version": "1.0",
        "other_id": str(job.id),
        "source": "nobody",
        "area": "jobs",
        "path": f"{job.id}/",
        **await _belongings(place),
    }


async def _belongings(place: Catalogue) -> dict[str, str]:
    """Create objects over HTTP, some as ada and some as the administrator; return their ids."""
    made = {}
    for who, path, parameter, body in (
        ("administrator", "announcements", "announcement_id", {"text": "Hello."}),
        ("administrator", "projects/vision/invitations", "invitation_id", {}),
        ("owner", "webhooks", "webhook_id", {"url": "https://hooks.example.org/aitne"}),
    ):
        async with place.client(who) as client:
            answer = await client.post(f"/api/v1/{path}", json=body)
            assert answer.status_code == 201, answer.text
            found = answer.json()
            made[parameter] = found.get("invitation", found)["id"]
    async with place.stage.browser("ada") as browser:
        mine = (await browser.get("/api/v1/account/sign-ins")).json()["items"][0]
    return made | {"sign_in_id": mine["id"]}


async def _actor(place: Catalogue, name: str) -> Actor:
    store = place.stage.store
    return Actor(
        user=await store.get_user(name), projects=frozenset(await store.list_user_roles(name))
    )


def _fill(path: str, known: dict[str, str]) -> str:
    """Return the path with its parameters replaced; ``{name}`` depends on the part before it."""

    def value(match: re.Match[str]) -> str:
        if match[1] != "name":
            return known[match[1]]
        return known[path[: match.start()].rstrip("/").rpartition("/")[2]]

    return re.sub(r"\{(\w+)\}", value, path)


async def _add_tokens(place: Catalogue) -> None:
    """Add the tokens of the roles that a catalogue does not have."""
    stage = place.stage
    place.tokens |= {
        "owner with a token to read": await stage.token(await _actor(place, "ada"), Scope.READ),
        "administrator without the scope": await stage.token(
            await _actor(place, "root"), Scope.READ, Scope.WRITE
        ),
        "disabled": await stage.token(await stage.add_user("dan", project="vision")),
        "manager": await stage.token(await stage.add_user("mia", project="vision")),
    }
    for who in ("owner", "manager", "administrator"):
        name = {"owner": "ada", "manager": "mia", "administrator": "root"}[who]
        place.tokens[f"{who}'s session"] = await session_token(stage, name)
    await stage.store.update_user("dan", disabled=True)
    await stage.store.set_member_role("vision", "mia", ProjectRole.MANAGER, actor="root")


READS = sorted(name for name, route in ROUTES.items() if OPERATIONS[name][0] == "GET")
WRITES = sorted(set(ROUTES) - set(READS))


async def _call(place: Catalogue, who: str, operation: str, known: dict[str, str]) -> str | None:
    """Call a route; return the error of its answer, or None if it is as the matrix says."""
    route = ROUTES[operation]
    method, path = OPERATIONS[operation]
    body: dict[str, Any] = {}
    if isinstance(route.body, bytes):
        body = {"content": route.body}
    elif route.body is not None:
        body = {"json": route.body}
    token = None if who == "anonymous" else place.tokens[who]
    async with place.stage.client(token) as client:
        answer = await client.request(method, _fill(path, known), params=dict(route.query), **body)
    passed = answer.status_code not in route.refused
    if answer.status_code != 500 and passed == route.passes(who):
        return None
    return f"{operation} by {who}: {answer.status_code} {answer.text}"


@pytest.mark.parametrize("who", WHO)
async def test_read_operations_answer_as_matrix_says(
    place: Catalogue, known: Known, who: str
) -> None:
    said = [await _call(place, who, name, known[ROUTES[name].kind]) for name in READS]
    assert [each for each in said if each is not None] == []


@pytest.mark.parametrize("operation", WRITES)
async def test_write_operation_is_refused_as_matrix_says(
    place: Catalogue, known: Known, operation: str
) -> None:
    refused = [who for who in WHO if not ROUTES[operation].passes(who)]
    said = [await _call(place, who, operation, known[ROUTES[operation].kind]) for who in refused]
    assert [each for each in said if each is not None] == []


@pytest.mark.parametrize(
    ("operation", "who"),
    [(name, who) for name in WRITES for who in WHO if ROUTES[name].passes(who)],
)
async def test_write_operation_is_permitted_as_matrix_says(
    place: Catalogue, known: Known, operation: str, who: str
) -> None:
    assert await _call(place, who, operation, known[ROUTES[operation].kind]) is None
