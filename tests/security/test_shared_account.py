"""A platform whose jobs all run as one account serves one user, unless its users trust each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.core.models.user import Role
from aitne.core.ports.identity_source import Identity, LoginDenied
from aitne.local_system.own_account import own_account_name
from aitne.local_system.settings_loader import load_settings
from aitne.services.users.isolation_warnings import SHARED_ORIGIN, list_isolation_warnings
from tests.support.stage import open_stage


async def test_a_second_user_is_refused(tmp_path: Path, blank: Path) -> None:
    async with open_stage(tmp_path, blank, trusted_users=False) as stage:
        root = await stage.add_user("root", Role.ADMIN)
        async with stage.client(await stage.token(root)) as client:
            refused = await client.post("/api/v1/users", json={"name": "bob"})
            me = (await client.get("/api/v1/me")).json()
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert f"run as {own_account_name()}" in refused.json()["detail"]
        assert "--trusted-users" in refused.json()["detail"]
        assert me["platform"]["shared_account"] is None
        with pytest.raises(LoginDenied) as login:
            await stage.platform.identity.arrivals.get_or_create_user("ldap", Identity(name="eve"))
        assert login.value.why == "single_user"
        assert (await stage.store.list_users()).total == 1


async def test_trusted_users_are_told_whose_account_they_share(tmp_path: Path, blank: Path) -> None:
    async with open_stage(tmp_path, blank, trusted_users=True) as stage:
        bob = await stage.add_user("bob")
        await stage.add_user("eve")
        async with stage.client(await stage.token(bob)) as client:
            me = (await client.get("/api/v1/me")).json()
    assert me["platform"]["shared_account"] == own_account_name()
    assert not me["platform"]["unix_accounts"]


async def test_users_with_accounts_of_their_own_are_not_limited(
    tmp_path: Path, blank: Path
) -> None:
    async with open_stage(tmp_path, blank, trusted_users=False, scheduler="slurm") as stage:
        for name in ("bob", "eve"):
            await stage.add_user(name)
        assert (await stage.store.list_users()).total == 2


async def test_mode_own_needs_no_trust_between_users(tmp_path: Path, blank: Path) -> None:
    settings = load_settings(tmp_path, accounts={"mode": "own"})
    own = {name: getattr(settings, name) for name in ("accounts", "broker", "slurm")}
    async with open_stage(tmp_path, blank, trusted_users=False, **own) as stage:
        root = await stage.add_user("root", Role.ADMIN)
        async with stage.client(await stage.token(root)) as client:
            created = await client.post("/api/v1/users", json={"name": "bob"})
            me = (await client.get("/api/v1/me")).json()
        assert created.status_code == 201, created.text
        assert (me["platform"]["shared_account"], me["platform"]["unix_accounts"]) == (None, True)
        assert await list_isolation_warnings(stage.store, stage.settings) == [SHARED_ORIGIN]


async def test_notes_state_that_users_must_trust_each_other(tmp_path: Path, blank: Path) -> None:
    async with open_stage(tmp_path, blank, trusted_users=True) as stage:
        (account,) = await list_isolation_warnings(stage.store, stage.settings)
        assert f"run as {own_account_name()}" in account
        assert "trust each other" in account
        alone = stage.settings.model_copy(update={"trusted_users": False})
        assert await list_isolation_warnings(stage.store, alone) == []
        for name in ("bob", "eve"):
            await stage.add_user(name)
        assert await list_isolation_warnings(stage.store, stage.settings) == [
            account,
            SHARED_ORIGIN,
        ]
        domains = alone.model_copy(update={"sessions_url": "https://*.sessions.test"})
        assert await list_isolation_warnings(stage.store, domains) == []
