"""Logins by a directory, against a real slapd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import Unavailable
from aitne.core.models.user import Role
from aitne.core.ports.identity_source import LoginDenied
from aitne.core.settings import Settings
from tests.support import realtime
from tests.support.requirements import need_package
from tests.support.slapd import (
    PASSWORD,
    SERVICE_DN,
    SERVICE_PASSWORD,
    SUFFIX,
    Directory,
    directory,
)
from tests.support.stage import PASSWORD as OWN_PASSWORD
from tests.support.stage import Stage, open_stage

pytestmark = realtime.PROCESSES

PEOPLE = f"ou=people,{SUFFIX}"
GROUPS = f"ou=groups,{SUFFIX}"
Make = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    need_package("bonsai")
    with directory(tmp_path_factory.mktemp("slapd")) as found:
        yield found


@pytest.fixture
def known(slapd: Directory, tmp_path: Path) -> dict[str, Any]:
    """Settings that search as the service account, over StartTLS."""
    secret = tmp_path / "bind-password"
    secret.write_text(SERVICE_PASSWORD + "\n")
    return {
        "url": f"ldap://127.0.0.1:{slapd.port}",
        "ca_file": slapd.ca_file,
        "bind_dn": SERVICE_DN,
        "bind_password_file": secret,
        "search_base": PEOPLE,
        "group_base": GROUPS,
        "timeout_s": 2.0,
    }


def source(ldap: dict[str, Any], tmp_path: Path) -> Any:
    from aitne.adapters.identity.ldap import LdapIdentity

    settings = Settings(data_dir=tmp_path, auth={"sources": ["ldap"], "ldap": ldap})
    return LdapIdentity(settings, lambda: None)  # type: ignore[arg-type, return-value]


@pytest.fixture
def stage_of(tmp_path: Path, blank: Path) -> Make:
    from aitne.adapters.identity.ldap import LdapIdentity

    @asynccontextmanager
    async def make(ldap: dict[str, Any], **auth: Any) -> AsyncIterator[Stage]:
        settings = {"sources": ["password", "ldap"], "ldap": ldap, **auth}
        folder = tmp_path / "stage"
        folder.mkdir()
        async with open_stage(
            folder, blank, lambda all_, clock: [LdapIdentity(all_, clock)], auth=settings
        ) as stage:
            yield stage

    return make


async def login(stage: Stage, name: str, password: str = PASSWORD) -> tuple[int, dict[str, Any]]:
    async with stage.client() as client:
        body = {"username": name, "password": password}
        answer = await client.post("/api/v1/auth/login", json=body)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("how", ["start_tls", "ldaps", "pattern"])
async def test_the_right_password_and_no_other(
    slapd: Directory, known: dict[str, Any], tmp_path: Path, how: str
) -> None:
    if how == "ldaps":
        known["url"] = f"ldaps://127.0.0.1:{slapd.tls_port}"
    if how == "pattern":
        for name in ("bind_dn", "bind_password_file", "search_base", "group_base"):
            del known[name]
        known["user_dn"] = f"uid={{user}},{PEOPLE}"
    ldap = source(known, tmp_path)
    found = await ldap.authenticate("ada", PASSWORD, None)
    assert (found.name, found.display_name, found.mail, found.role) == (
        "ada",
        "Ada Lovelace",
        "ada@example.org",
        None,
    )
    for name, password in (
        ("ada", "wrong"),
        ("ada", ""),
        ("", PASSWORD),
        ("nobody", PASSWORD),
        ("service", SERVICE_PASSWORD),
        ("ada\0", PASSWORD),
    ):
        assert await ldap.authenticate(name, password, None) is None, name


@pytest.mark.parametrize(
    "typed",
    [
        "*",
        "a*",
        "ada)(objectClass=*",
        "ada)(|(uid=*",
        "*)(uid=ada",
        "ada,ou=people",
        "ada+cn=x",
        "\\61da",
        "ada\n",
    ],
)
@pytest.mark.parametrize("how", ["search", "pattern"])
async def test_login_name_cannot_change_ldap_filter_or_dn(
    known: dict[str, Any], tmp_path: Path, typed: str, how: str
) -> None:
    if how == "pattern":
        known["user_dn"] = f"uid={{user}},{PEOPLE}"
    assert await source(known, tmp_path).authenticate(typed, PASSWORD, None) is None


async def test_a_password_never_travels_readable(
    slapd: Directory, known: dict[str, Any], tmp_path: Path
) -> None:
    # The certificate is of an authority that the system does not know.
    del known["ca_file"]
    with pytest.raises(Unavailable):
        await source(known, tmp_path).authenticate("ada", PASSWORD, None)


async def test_groups_give_the_role_and_let_in(known: dict[str, Any], tmp_path: Path) -> None:
    ldap = source(known | {"admin_groups": ["operators"], "allowed_groups": ["vision"]}, tmp_path)
    assert (await ldap.authenticate("ada", PASSWORD, None)).role is Role.ADMIN
    assert (await ldap.authenticate("bob", PASSWORD, None)).role is Role.USER
    with pytest.raises(LoginDenied, match="members of vision"):
        await ldap.authenticate("eve", PASSWORD, None)
    assert await ldap.authenticate("eve", "wrong", None) is None


async def test_a_directory_that_hangs_or_is_away(
    slapd: Directory, known: dict[str, Any], tmp_path: Path
) -> None:
    slapd.stop()
    try:
        with pytest.raises(Unavailable, match="cannot be queried"):
            await source(known, tmp_path).authenticate("ada", PASSWORD, None)
    finally:
        slapd.go_on()
    away = source(known | {"url": "ldap://127.0.0.1:1"}, tmp_path)
    with pytest.raises(Unavailable, match="cannot be queried"):
        await away.authenticate("ada", PASSWORD, None)


async def test_the_first_login_makes_an_account(known: dict[str, Any], stage_of: Make) -> None:
    async with stage_of(known | {"admin_groups": ["operators"]}) as stage:
        status, me = await login(stage, "Ada")
        assert (status, me["user"]["name"], me["user"]["role"]) == (200, "ada", "admin")
        user = await stage.store.get_user("ada")
        assert (user.source, user.mail, user.display_name) == (
            "ldap",
            "ada@example.org",
            "Ada Lovelace",
        )
        assert set(await stage.store.list_user_roles("ada")) == {"ada"}
        await stage.add_user("root", Role.ADMIN)
        await stage.store.update_user("ada", role=Role.USER, mail="elsewhere@example.org")
        assert (await login(stage, "ada"))[0] == 200
        again = await stage.store.get_user("ada")
        assert (again.role, again.mail) == (Role.ADMIN, "elsewhere@example.org")
        assert (await login(stage, "bob"))[1]["user"]["role"] == "user"
        await stage.store.update_user("bob", disabled=True)
        assert (await login(stage, "bob"))[0] == 401


async def test_user_named_like_project_does_not_become_member(
    known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known) as stage:
        await stage.add_user("carl", project="ada")
        assert (await login(stage, "ada"))[1]["projects"] == ["ada-own"]


async def test_where_accounts_are_made_by_hand(known: dict[str, Any], stage_of: Make) -> None:
    async with stage_of(known, create_users=False) as stage:
        status, problem = await login(stage, "ada")
        assert status == 403
        assert "no account here" in problem["detail"]
        assert (await login(stage, "ada", "wrong"))[0] == 401


async def test_a_name_that_is_somebody_elses_is_refused_until_it_is_handed_over(
    known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known) as stage:
        root = await stage.add_user("root", Role.ADMIN)
        await stage.add_user("ada")
        assert (await login(stage, "ada", OWN_PASSWORD))[0] == 200
        status, problem = await login(stage, "ada")
        assert status == 403
        assert "aitne admin user set ada --source ldap" in problem["detail"]
        async with stage.client(await stage.token(root)) as program:
            answer = await program.patch("/api/v1/users/ada", json={"source": "ldap"})
            assert answer.json()["source"] == "ldap"
            unknown = await program.patch("/api/v1/users/ada", json={"source": "oidc"})
            assert unknown.status_code == 422
            refused = await program.patch("/api/v1/users/ada", json={"password": "something new"})
            assert refused.status_code == 409
        assert (await login(stage, "ada"))[0] == 200
        assert (await login(stage, "ada", OWN_PASSWORD))[0] == 401


async def test_local_accounts_log_in_while_directory_is_unavailable(
    slapd: Directory, known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known | {"url": "ldap://127.0.0.1:1"}) as stage:
        await stage.add_user("root", Role.ADMIN)
        assert (await login(stage, "root", OWN_PASSWORD))[0] == 200
        status, problem = await login(stage, "ada")
        assert (status, problem["code"]) == (503, "unavailable")


async def test_spellings_share_one_lock(known: dict[str, Any], stage_of: Make) -> None:
    async with stage_of(known, max_failures=3) as stage:
        answers = [(await login(stage, name, "wrong"))[0] for name in ("ada", "Ada", " ADA ")]
        assert answers == [401, 401, 401]
        assert (await login(stage, "aDa"))[0] == 429
