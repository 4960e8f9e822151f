"""The platform always has an enabled administrator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aitne.core.models.user import Role
from aitne.core.ports.identity_source import Identity
from aitne.services.users import first_run
from tests.support.stage import Stage


async def test_two_administrators_cannot_demote_each_other(stage: Stage) -> None:
    ada, bob = await stage.add_user("ada", Role.ADMIN), await stage.add_user("bob", Role.ADMIN)
    async with (
        stage.client(await stage.token(ada)) as as_ada,
        stage.client(await stage.token(bob)) as as_bob,
    ):
        answers = await asyncio.gather(
            as_ada.patch("/api/v1/users/bob", json={"role": "user"}),
            as_bob.patch("/api/v1/users/ada", json={"disabled": True}),
        )
    assert sorted(answer.status_code for answer in answers) in ([200, 403], [200, 409])
    assert len(await stage.store.list_administrators()) == 1


async def test_an_identity_source_cannot_demote_the_last_administrator(stage: Stage) -> None:
    arrivals = stage.platform.identity.arrivals
    await stage.add_user("ada", Role.ADMIN)
    await stage.store.update_user("ada", source="ldap")
    demoted = Identity(name="ada", role=Role.USER, display_name="Ada L.")
    user = await arrivals.get_or_create_user("ldap", demoted)
    assert (user.role, user.display_name) == (Role.ADMIN, "Ada L.")
    await stage.add_user("bob", Role.ADMIN)
    assert (await arrivals.get_or_create_user("ldap", demoted)).role is Role.USER


@pytest.mark.parametrize(
    ("source", "administrator"), [(None, "operator"), ("ldap", "operator-admin")]
)
async def test_a_start_restores_an_administrator(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, source: str | None, administrator: str
) -> None:
    monkeypatch.setattr(first_run, "unix_user", lambda: "operator")
    for name in ("operator", "ada"):
        await stage.add_user(name)
    await stage.store.update_user("operator", disabled=True, source=source)
    await stage.platform.first_run.prepare()
    (restored,) = await stage.store.list_administrators()
    assert restored.name == administrator
    token = Path(stage.settings.secrets_dir / first_run.CLI_TOKEN).read_text().strip()
    async with stage.client(token) as client:
        assert (await client.get("/api/v1/users")).status_code == 200


async def test_first_administrator_has_the_name_that_the_start_gives(stage: Stage) -> None:
    await stage.platform.first_run.prepare("ada")
    await stage.platform.first_run.prepare("bob")
    assert [user.name for user in await stage.store.list_administrators()] == ["ada"]
