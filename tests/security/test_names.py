"""Names of identities: one to one with accounts, whatever a source reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import Conflict, NotAuthenticated, RateLimited
from aitne.core.models.audit import AuditFilter
from aitne.core.ports.identity_source import Identity, LoginDenied
from aitne.services.users.login_results import RequestOrigin, WebLogin
from tests.support.stage import PASSWORD, Stage, open_stage

Make = Callable[..., AbstractAsyncContextManager[Stage]]


class FixedDirectory:
    """Directory that reports what was typed as the name, with one password for all.

    Args:
        has_subjects: whether it identifies users by more than their names.
    """

    name = "ldap"

    def __init__(self, *, has_subjects: bool) -> None:
        self._has_subjects = has_subjects

    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        subject = username if self._has_subjects else None
        return Identity(username, subject=subject) if password == PASSWORD else None


@pytest.fixture
def stage_of(tmp_path: Path, blank: Path) -> Make:
    @asynccontextmanager
    async def make(*, has_subjects: bool = True, **overrides: Any) -> AsyncIterator[Stage]:
        folder = tmp_path / "stage"
        folder.mkdir()
        directory = FixedDirectory(has_subjects=has_subjects)
        async with open_stage(
            folder, blank, lambda settings, clock: [directory], **overrides
        ) as stage:
            yield stage

    return make


async def log_in(stage: Stage, name: str, password: str = PASSWORD) -> str:
    """Return the name of the account that the login opened."""
    login = await stage.platform.identity.login(name, password, RequestOrigin("10.0.0.1"))
    assert isinstance(login, WebLogin)
    return login.actor.name


async def last_entry(stage: Stage) -> tuple[str, str, Any]:
    page = await stage.store.list_audit_entries(AuditFilter(), cursor=None, limit=1)
    entry = page.items[0]
    return entry.actor, entry.outcome, entry.details.get("why")


@pytest.mark.parametrize("name", ["anna.b", "bob@uni.example", "1234567", "a" * 33])
async def test_a_name_of_a_unix_account_logs_in(stage_of: Make, name: str) -> None:
    async with stage_of() as stage:
        assert await log_in(stage, name) == name
        user = await stage.store.get_user(name)
        assert user.source == "ldap"
        assert (await stage.store.get_project(user.default_project)).members == (name,)


async def test_two_identities_never_reach_one_account(stage_of: Make) -> None:
    names = {"ldap": {"domains": ["a.example", "b.example"], "lower_case": True}}
    async with stage_of(auth={"names": names}) as stage:
        assert await log_in(stage, "Ada@a.example") == "ada"
        for other in ("ada@b.example", "ada", "ADA@a.example"):
            with pytest.raises(LoginDenied, match="another identity"):
                await log_in(stage, other)
            assert (await last_entry(stage))[1:] == ("denied", "name_taken")
        assert await log_in(stage, "Ada@a.example") == "ada"
        # A domain that is not listed stays, and so does the account apart.
        assert await log_in(stage, "ada@c.example") == "ada@c.example"


async def test_a_source_with_nothing_but_names_gives_each_one_account(stage_of: Make) -> None:
    names = {"ldap": {"domains": ["a.example", "b.example"], "lower_case": True}}
    async with stage_of(has_subjects=False, auth={"names": names}) as stage:
        for spelling in ("Ada@a.example", "ada@a.example", "ADA@A.example"):
            assert await log_in(stage, spelling) == "ada"
        for other in ("ada@b.example", "ada"):
            with pytest.raises(LoginDenied, match="another identity"):
                await log_in(stage, other)
            assert (await last_entry(stage))[1:] == ("denied", "name_taken")
        assert await log_in(stage, "sam") == "sam"
        # Letters that look alike, which only some directories take for one.
        for other in ("\u017fam", "\uff53am"):
            with pytest.raises(LoginDenied, match="gives no account"):
                await log_in(stage, other)


async def test_identities_that_arrive_at_once_share_no_account(stage_of: Make) -> None:
    names = {"ldap": {"domains": ["a.example", "b.example"]}}
    async with stage_of(auth={"names": names}) as stage:
        ends = await asyncio.gather(
            *(log_in(stage, f"ada@{domain}.example") for domain in "abab"), return_exceptions=True
        )
        assert ends.count("ada") == 2
        assert sum(isinstance(end, LoginDenied) for end in ends) == 2


async def test_names_that_differ_in_capitals_share_no_account(stage_of: Make) -> None:
    async with stage_of(auth={"names": {"ldap": {"lower_case": False}}}) as stage:
        await stage.add_user("Ada")
        for name in ("ada", "ADA"):
            with pytest.raises(LoginDenied, match="differ only in capital letters"):
                await log_in(stage, name)
            with pytest.raises(Conflict):
                await stage.add_user(name)
        assert await log_in(stage, "Ada") == "Ada"


@pytest.mark.parametrize("name", ["../ada", "-ada", "ada\u202e", "\u212aelvin", "ad\u00e9"])
async def test_a_name_that_nothing_can_carry_is_refused(stage_of: Make, name: str) -> None:
    async with stage_of() as stage:
        with pytest.raises(LoginDenied, match=r"gives no account here.*auth\.names\.ldap"):
            await log_in(stage, name)
        assert await last_entry(stage) == ("?", "denied", "bad_name")


async def test_the_unix_account_of_another_user_is_refused(stage_of: Make) -> None:
    async with stage_of(accounts={"map": {"ada": "lovelace"}}) as stage:
        with pytest.raises(LoginDenied, match="to the user ada"):
            await log_in(stage, "lovelace")
        with pytest.raises(Conflict, match="to the user ada"):
            await stage.add_user("lovelace")
        assert await log_in(stage, "ada") == "ada"


async def test_spellings_of_a_name_are_locked_together(stage: Stage) -> None:
    auth = stage.settings.auth
    rules = auth.names.model_copy(
        update={
            "password": auth.names.password.model_copy(
                update={"domains": ["uni.example"], "lower_case": True}
            )
        }
    )
    object.__setattr__(auth, "names", rules)
    await stage.add_user("ada")
    for spelling in ("ada", "ADA", "ada@uni.example", "Ada@UNI.example"):
        login = await stage.platform.identity.login(spelling, PASSWORD, RequestOrigin("10.0.1.1"))
        assert isinstance(login, WebLogin), spelling
        assert login.actor.name == "ada"
    ends = set()
    for number in range(auth.max_failures + 1):
        spelling = ("ada", "ADA@uni.example", "ada@uni.example")[number % 3]
        try:
            await stage.platform.identity.login(
                spelling, "wrong", RequestOrigin(f"10.0.0.{number}")
            )
        except (NotAuthenticated, RateLimited) as error:
            ends.add(error.code)
    assert ends == {"not_authenticated", "rate_limited"}


async def test_the_log_never_holds_what_may_be_a_password(stage: Stage) -> None:
    await stage.add_user("Ada.L")
    for typed, logged in (("Hunter2.Long", "?"), ("ada.l", "Ada.L"), ("nobody", "nobody")):
        with pytest.raises(NotAuthenticated):
            await stage.platform.identity.login(typed, "wrong", RequestOrigin("10.0.0.1"))
        assert (await last_entry(stage))[0] == logged
