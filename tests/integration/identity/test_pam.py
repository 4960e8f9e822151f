"""Logins by PAM with a real account of this machine, in this process and by the broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.core.errors import NotSupported
from aitne.core.models.user import Role
from aitne.core.ports.identity_source import LoginDenied
from aitne.core.settings import Settings
from tests.support import realtime
from tests.support.broker import BrokerBench, unix_users
from tests.support.requirements import lacking
from tests.support.stage import open_stage

pytestmark = realtime.PROCESSES

try:
    import pamela

    from aitne.adapters.identity.pam import PamIdentity
except ImportError:
    pamela = None

PASSWORD = "a word of Anna's"


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    """A person's account, with a password and a full name."""
    if pamela is None:
        lacking("pam", "pamela is not installed: pip install aitne[pam]")
    if os.geteuid() != 0:
        lacking("pam", "only root makes accounts and asks for others' passwords")
    with unix_users() as users:
        name = users["anna"]
        subprocess.run(["chpasswd"], input=f"{name}:{PASSWORD}", text=True, check=True)
        subprocess.run(["usermod", "--comment", "Anna Test,,,", name], check=True)
        yield name


def source(tmp_path: Path, **pam: Any) -> Any:
    return PamIdentity(Settings(data_dir=tmp_path, auth={"pam": pam}), lambda: None)  # type: ignore[arg-type, return-value]


async def test_the_right_password_and_no_other(account: str, tmp_path: Path) -> None:
    pam = source(tmp_path)
    found = await pam.authenticate(account, PASSWORD, None)
    assert (found.name, found.display_name, found.role) == (account, "Anna Test", None)
    for name, password in (
        (account, "wrong"),
        (account, ""),
        (account, PASSWORD + "\0"),
        ("no-such-account", PASSWORD),
        ("root", ""),
        ("daemon", PASSWORD),
        (account.upper(), PASSWORD),
    ):
        assert await pam.authenticate(name, password, None) is None, name


async def test_groups_give_the_role_and_let_in(account: str, tmp_path: Path) -> None:
    of_admins = source(tmp_path, admin_groups=[account])
    assert (await of_admins.authenticate(account, PASSWORD, None)).role is Role.ADMIN
    others = source(tmp_path, allowed_groups=["somebody-elses"])
    with pytest.raises(LoginDenied, match="somebody-elses"):
        await others.authenticate(account, PASSWORD, None)


async def test_an_expired_account_stays_out(account: str, tmp_path: Path) -> None:
    subprocess.run(["chage", "--expiredate", "1", account], check=True)
    try:
        assert await source(tmp_path).authenticate(account, PASSWORD, None) is None
    finally:
        subprocess.run(["chage", "--expiredate", "-1", account], check=True)


async def test_the_first_login_makes_an_account(account: str, tmp_path: Path, blank: Path) -> None:
    async with (
        open_stage(
            tmp_path,
            blank,
            lambda settings, clock: [PamIdentity(settings, clock)],
            auth={"sources": ["password", "pam"]},
        ) as stage,
        stage.client() as client,
    ):
        body = {"username": account, "password": PASSWORD}
        answer = await client.post("/api/v1/auth/login", json=body)
        assert (answer.status_code, answer.json()["user"]["display_name"]) == (200, "Anna Test")
        assert (await stage.store.get_user(account)).source == "pam"


class TestByTheBroker:
    """The platform has no privilege; the broker's own settings name the service."""

    @pytest.fixture
    def bench(self, account: str) -> Iterator[BrokerBench]:
        bench = BrokerBench({"anna": account})
        bench.write_config(peers='[0]\npam_service = "login"')
        bench.start()
        yield bench
        bench.stop()

    async def test_the_right_password_and_no_other(self, account: str, bench: BrokerBench) -> None:
        pam = PamIdentity(bench.settings(), lambda: None)  # type: ignore[arg-type, return-value]
        found = await pam.authenticate(account, PASSWORD, None)
        assert found is not None
        assert found.name == account
        for name, password in ((account, "wrong"), ("root", PASSWORD), ("nobody", PASSWORD)):
            assert await pam.authenticate(name, password, None) is None
        await pam.close()
        lines = bench.audited(verb="check_password")
        assert [line["outcome"] for line in lines] == ["done", "done", "refused", "refused"]
        assert PASSWORD not in bench.audit.read_text()

    async def test_a_broker_that_checks_none_says_so(
        self, account: str, bench: BrokerBench
    ) -> None:
        bench.kill()
        bench.write_config()
        bench.start()
        pam = PamIdentity(bench.settings(), lambda: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(NotSupported, match="pam_service"):
            await pam.authenticate(account, PASSWORD, None)
        await pam.close()
