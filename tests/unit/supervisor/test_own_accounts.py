"""Requirements of a platform that root starts and whose jobs run as their users' accounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.broker.config import load_config
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.supervisor import per_user_accounts, platform_control, start_checks
from aitne.supervisor.supervisor_plan import LIVE, ChildPlan, SupervisorPlan, plan_dir
from tests.support.own_accounts import open_folder, process_account
from tests.support.slurm import root_or_skip

PLATFORM = "daemon"
"""A system account that every machine has; it stands for the platform's."""


@pytest.fixture
def folder() -> Iterator[Path]:
    root_or_skip()
    with open_folder() as made:
        yield made


def own(data_dir: Path, **accounts: Any) -> Settings:
    return load_settings(data_dir, accounts={"mode": "own", "platform": PLATFORM, **accounts})


def made(settings: Settings) -> None:
    per_user_accounts.create_platform_folders(settings, process_account(PLATFORM))


def test_mode_own_has_a_broker_and_software_beside_the_data_directory(tmp_path: Path) -> None:
    settings = own(tmp_path / "data")
    assert settings.broker.socket == tmp_path / "data-broker" / "broker.sock"
    assert settings.slurm.software_dir == tmp_path / "data-broker" / "software"
    named = load_settings(
        tmp_path, accounts={"mode": "own"}, slurm={"software_dir": "/srv/software"}
    )
    assert named.slurm.software_dir == Path("/srv/software")
    assert load_settings(tmp_path).broker.socket is None


def test_mode_own_with_a_cluster_or_another_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"is for the embedded scheduler: with Slurm the broker"):
        load_settings(
            tmp_path,
            scheduler="slurm_cli",
            accounts={"mode": "own"},
            slurm={"conf": "/etc/slurm.conf"},
        )
    with pytest.raises(SetupError, match=r"remove broker\.socket"):
        load_settings(tmp_path, accounts={"mode": "own"}, broker={"socket": "/run/other.sock"})


def test_start_by_another_account_than_root_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    with pytest.raises(SetupError, match=r"requires root: use `sudo`"):
        start_checks.check_requirements(own(tmp_path))


def test_missing_account_is_named_with_its_command(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"useradd --system .* no-such-account`"):
        per_user_accounts.platform_account(own(tmp_path, platform="no-such-account"))


def test_account_that_jobs_may_run_as_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"Jobs may run as daemon, the platform's own account"):
        per_user_accounts.platform_account(own(tmp_path, min_uid=1))


def test_data_directory_of_root_is_given_to_the_platform(folder: Path) -> None:
    data_dir, outside = folder / "data", folder / "outside"
    (data_dir / "secrets").mkdir(parents=True)
    (data_dir / "secrets" / "key").write_text("secret")
    (data_dir / "aitne.toml").write_text("")
    outside.write_text("root's")
    (data_dir / "link").symlink_to(outside)
    settings, account = own(data_dir), process_account(PLATFORM)
    made(settings)
    paths = (data_dir, data_dir / "secrets", data_dir / "secrets" / "key", data_dir / "link")
    assert {path.lstat().st_uid for path in paths} == {account.uid}
    assert outside.stat().st_uid == 0, "a link was followed"
    config = (data_dir / "aitne.toml").stat()
    assert (config.st_uid, config.st_gid) == (0, account.gid)
    assert settings.broker_dir.stat().st_uid == 0
    assert plan_dir(data_dir) == settings.broker_dir
    made(settings)  # again, as at every start


def test_data_directory_of_another_account_is_refused(folder: Path) -> None:
    (folder / "data").mkdir()
    os.chown(folder / "data", 12_345, 12_345)
    with pytest.raises(SetupError, match=r"belongs to uid 12345, not to daemon.*chown -R daemon:"):
        made(own(folder / "data"))


def test_settings_that_others_can_change_are_refused(folder: Path) -> None:
    config = folder / "data" / "aitne.toml"
    config.parent.mkdir()
    config.write_text("")
    for owner, mode in ((1, 0o644), (0, 0o666)):
        os.chown(config, owner, owner)
        config.chmod(mode)
        with pytest.raises(SetupError, match=r"Accounts other than root can change .*chown root"):
            made(own(config.parent))


@pytest.mark.parametrize(
    ("owner", "mode", "says"),
    [(1, 0o755, "can change"), (0, 0o777, "can change"), (0, 0o700, "cannot reach")],
)
def test_place_that_others_can_change_or_not_reach_is_refused(
    folder: Path, owner: int, mode: int, says: str
) -> None:
    place = folder / "place"
    place.mkdir()
    os.chown(place, owner, owner)
    place.chmod(mode)
    with pytest.raises(SetupError, match=rf"{says} .*--data-dir, such as /var/lib/aitne"):
        made(own(place / "data"))


@pytest.mark.parametrize(("before", "now"), [("", "own"), ("own", "shared")])
def test_change_of_mode_loses_no_running_job(tmp_path: Path, before: str, now: str) -> None:
    settings = load_settings(tmp_path, accounts={"mode": now})
    settings.run_dir.mkdir()
    (settings.run_dir / LIVE).write_text(before)
    with pytest.raises(SetupError, match=r"may still run, .* would lose them\. .*aitne down"):
        start_checks.check_requirements(settings)


def test_root_does_not_run_jobs_in_a_directory_of_another_account(folder: Path) -> None:
    os.chown(folder, 1, 1)
    with pytest.raises(SetupError, match=r'belongs to uid 1, .*Set mode = "own"'):
        start_checks.check_requirements(load_settings(folder))


def test_root_with_a_shared_account_is_told_of_mode_own(tmp_path: Path) -> None:
    root_or_skip()
    assert any('mode = "own"' in note for note in start_checks.list_notes(load_settings(tmp_path)))
    assert not any('mode = "own"' in note for note in start_checks.list_notes(own(tmp_path)))


def test_platform_gets_nothing_of_the_environment_of_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PYTHONPATH", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "root's")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    environment = per_user_accounts.make_process_environment(own(tmp_path))
    assert "root's" not in environment.values()
    assert environment["https_proxy"] == "http://proxy:3128"
    assert environment["USER"] == PLATFORM


def test_broker_gets_the_platforms_settings(folder: Path) -> None:
    settings = load_settings(
        folder / "data",
        accounts={"mode": "own", "platform": PLATFORM, "groups": ["hpc users"]},
        local={"nodes": 2, "memory": "4G", "gpus": "a100:2"},
        limits={"max_duration": "2d"},
        storage={"areas": [{"name": "scratch", "path": "/scratch/{user}"}]},
        auth={"sources": ["password", "pam"]},
    )
    made(settings)
    path = per_user_accounts.write_broker_config(settings)
    assert path.stat().st_mode & 0o777 == 0o600
    config = load_config(path)
    assert config.peers == [PLATFORM]
    assert config.socket == settings.broker.socket
    assert (config.scheduler, config.max_duration) == ("local", 2 * 86_400)
    assert (config.local, config.storage) == (settings.local, settings.storage)
    assert config.accounts.groups == ["hpc users"]
    assert config.pam_service == settings.auth.pam.service


def test_root_ends_no_jobs_by_a_plan_of_another_account(folder: Path) -> None:
    for name in ("data/run", "data/logs", "data-broker"):
        (folder / name).mkdir(parents=True)
    (folder / "data" / "run" / LIVE).touch()
    marker, plan = folder / "executed", folder / "data-broker" / "plan.json"
    children = [ChildPlan("broker", ["touch", str(marker)], as_root=True)]
    addresses = dict.fromkeys(("url", "sessions_url", "ready_url", "hub_url"), "http://localhost")
    SupervisorPlan(
        data_dir=str(folder / "data"),
        **addresses,
        base_env={},
        init=[],
        drain=["touch", str(marker)],
        children=children,
    ).write(plan.parent)
    for path in (folder / "data", plan):
        os.chown(path, 1, 1)
    with pytest.raises(SetupError, match="Use the account that started the platform"):
        platform_control.stop_platform(folder / "data", keep_jobs=False)
    assert not marker.exists()


def test_account_that_used_sudo_becomes_the_administrator_if_jobs_may_run_as_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "root")
    assert per_user_accounts.find_starting_account(own(tmp_path)) is None
    monkeypatch.setenv("SUDO_USER", "bin")
    assert per_user_accounts.find_starting_account(own(tmp_path, min_uid=2)) == "bin"
