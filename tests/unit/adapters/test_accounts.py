"""The Unix accounts of jobs, and accounts that are never used."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from aitne.adapters.unix_account_mapping import OwnAccount, UnixAccounts
from aitne.core.errors import InvalidInput, SetupError
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings

ACCOUNTS = {
    "ada": (1_500, 100, "/home/ada"),
    "a.lovelace": (1_501, 100, "/home/a.lovelace"),
    "lovelace": (1_502, 100, "/home/lovelace"),
    "daemon": (1, 1, "/"),
    "homeless": (1_503, 100, ""),
    "climber": (1_504, 100, "/home/../etc"),
    "countess": (1_500, 100, "/home/ada"),
    "nobody": (65_534, 65_534, "/nonexistent"),
}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settings]:
    """A machine with these accounts; ``ada`` alone is in the group ``hpc``."""

    def getpwnam(name: str) -> pwd.struct_passwd:
        # A directory service finds names in any case.
        uid, gid, home = ACCOUNTS[name.lower()]
        return pwd.struct_passwd((name.lower(), "x", uid, gid, "", home, "/bin/sh"))

    def getgrnam(name: str) -> grp.struct_group:
        if name != "hpc":
            raise KeyError(name)
        return grp.struct_group(("hpc", "x", 700, []))

    def getpwuid(uid: int) -> pwd.struct_passwd:
        names = [name for name, facts in ACCOUNTS.items() if facts[0] == uid]
        return getpwnam(names[0] if names else "lovelace")

    monkeypatch.setattr(pwd, "getpwnam", getpwnam)
    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    monkeypatch.setattr(grp, "getgrnam", getgrnam)
    monkeypatch.setattr(
        os, "getgrouplist", lambda name, gid: [gid, 700] if name == "ada" else [gid]
    )
    return lambda **changes: load_settings(tmp_path, **changes)


def test_the_account_of_the_users_own_name(settings: Callable[..., Settings]) -> None:
    found = UnixAccounts(settings()).get_account("ada")
    assert (found.name, found.folder) == ("ada", "/home/ada/.aitne/jobs")


def test_account_map_and_jobs_dir_determine_account_and_folder(
    settings: Callable[..., Settings],
) -> None:
    accounts = UnixAccounts(
        settings(
            accounts={"map": {"ada": "lovelace"}},
            slurm={"jobs_dir": "/scratch/{user}/jobs"},
        )
    )
    found = accounts.get_account("ada")
    assert (found.name, found.folder) == ("lovelace", "/scratch/lovelace/jobs")


def test_account_with_a_full_stop(settings: Callable[..., Settings]) -> None:
    found = UnixAccounts(settings()).get_account("a.lovelace")
    assert (found.name, found.folder) == ("a.lovelace", "/home/a.lovelace/.aitne/jobs")


def test_no_two_users_have_one_account(settings: Callable[..., Settings]) -> None:
    accounts = UnixAccounts(settings(accounts={"map": {"ada": "lovelace"}}))
    with pytest.raises(InvalidInput, match="gives the Unix account lovelace to the user ada"):
        accounts.get_account("lovelace")
    with pytest.raises(SetupError, match="to ada and to bob"):
        settings(accounts={"map": {"ada": "lovelace", "bob": "lovelace"}})


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("grace", "no Unix account grace"),
        ("daemon", "uid 1 "),
        ("nobody", "uid 65534"),
        ("homeless", "not an absolute path"),
        ("climber", "not an absolute path"),
        ("../ada", "not the name"),
        ("Ada", "no Unix account Ada"),
        ("countess", "countess is ada under another name"),
    ],
)
def test_accounts_that_no_job_runs_as(
    settings: Callable[..., Settings], user: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        UnixAccounts(settings()).get_account(user)
    assert refused.value.problems[0].field == "account"
    assert "accounts.map" in refused.value.message


def test_only_members_of_a_group(settings: Callable[..., Settings]) -> None:
    accounts = UnixAccounts(settings(accounts={"groups": ["hpc", "no-such-group"]}))
    assert accounts.get_account("ada").name == "ada"
    with pytest.raises(InvalidInput, match="none of the groups hpc"):
        accounts.get_account("lovelace")


def test_without_a_broker_all_jobs_are_the_platforms(
    settings: Callable[..., Settings], tmp_path: Path
) -> None:
    found = OwnAccount(settings()).get_account("grace")
    assert (found.name, found.folder) == (None, str(tmp_path / "jobs"))
