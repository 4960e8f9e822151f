"""Addresses of databases, as the settings contain them."""

from __future__ import annotations

import pwd

import pytest

from aitne.store.database_address import parse_address
from aitne.supervisor.process_account import ProcessAccount, acting_as
from tests.support.slurm import root_or_skip


def test_root_logs_in_to_postgresql_as_the_account_for_which_it_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root_or_skip()
    monkeypatch.setenv("LOGNAME", "root")
    monkeypatch.delenv("PGUSER", raising=False)
    local = parse_address("postgresql:///aitne?host=/var/run/postgresql")
    with acting_as(ProcessAccount.from_passwd(pwd.getpwnam("nobody"))):
        assert local.user == "nobody"


@pytest.mark.parametrize(
    "url", ["postgresql://ada@host/name", "postgresql://a:b@host/n", "postgresql:///n?user=ada"]
)
def test_user_in_an_address_is_the_one_that_logs_in(url: str) -> None:
    assert parse_address(url).user is None


def test_user_of_the_environment_logs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "ada")
    assert parse_address("postgresql:///name").user is None
