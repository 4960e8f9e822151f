"""The doctor on a data directory without faults, and with each of the planted ones."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aitne.core.models.check_result import CheckState
from aitne.core.models.cluster import Node, NodeState
from aitne.core.models.job_file import JobFile
from aitne.local_system.settings_loader import load_settings
from aitne.operations.doctor import check_execution
from aitne.operations.doctor.check_execution import run_checks, store_report
from aitne.operations.doctor.check_registry import CHECKS, DoctorCheck, Subject
from aitne.operations.doctor.checked_host import CheckedHost, open_host
from aitne.operations.doctor.checks import all_checks, slurm
from aitne.operations.doctor.checks.machine import list_unit_problems
from aitne.operations.doctor.node_test_jobs import make_job_file
from aitne.operations.doctor.root_files import RootFiles, read_root_files
from aitne.operations.requirements.findings import Finding, make_ok_finding
from aitne.services.platform.certificate_authorities import authority_file
from aitne.services.platform.doctor_report import read_report
from aitne.supervisor.plan_creation import make_plan
from tests.support.broker import skip_if_code_is_private
from tests.support.certificates import Authority
from tests.support.slurm import root_or_skip
from tests.unit.operations.doctor_site import Site, site
from tests.unit.operations.planted import (
    AT_ONCE,
    FAILED,
    FAULTS,
    WARNING,
    add_user,
    broker,
    broker_permits_other_uids,
    database_is_of_a_newer_release,
    folder_is_missing,
    secret_is_readable,
    write_was_interrupted,
)
from tests.unit.operations.planted_servers import tls_server

__all__ = ["site"]


@pytest.mark.parametrize(
    ("plant", "name", "state", "message", "remedy"),
    FAULTS,
    ids=[f"{name}: {plant.__name__}" for plant, name, *_ in FAULTS],
)
def test_planted_fault_is_named_with_its_remedy(
    site: Site,
    plant: Callable[[Site], None],
    name: str,
    state: CheckState,
    message: str,
    remedy: str,
) -> None:
    plant(site)
    (result,) = site.examine(name).report()
    assert (result.name, result.state) == (name, state), result
    assert message in result.message
    assert remedy in (result.remedy or "")


def test_all_of_many_faults_at_once_are_named_with_their_remedies(site: Site) -> None:
    planted = {plant: expected for plant, *expected in FAULTS}
    for plant in AT_ONCE:
        plant(site)
    examination = asyncio.run(run_checks(site.host()))
    logging.getLogger(__name__).info(
        "%d checks in %.2f s", len(examination.results), examination.seconds
    )
    results = {result.name: result for result in examination.report()}
    unnamed = []
    for plant in AT_ONCE:
        name, state, message, remedy = planted[plant]
        result = results[name]
        if (
            result.state is not state
            or message not in result.message
            or remedy not in str(result.remedy)
        ):
            unnamed.append((plant.__name__, result))
    assert unnamed == []
    assert len({planted[plant][0] for plant in AT_ONCE}) == len(AT_ONCE) >= 20


def test_healthy_data_directory_has_no_failure_but_the_stopped_platform(site: Site) -> None:
    examination = asyncio.run(run_checks(CheckedHost(site.settings(), None)))
    failed = {result.name for result in examination.report() if result.state is FAILED}
    assert failed == {"processes"}
    assert {result.name for result in examination.report()} == set(CHECKS)


def test_certificate_of_the_platforms_own_ca_is_accepted_behind_a_reverse_proxy(site: Site) -> None:
    authority = Authority(site.root)
    port = site.stack.enter_context(tls_server(authority.issue("portal", "localhost")))
    site.set(f'public_url = "https://localhost:{port}"')
    published = authority_file(site.settings())
    published.parent.mkdir(exist_ok=True)
    shutil.copy(authority.path, published)
    (result,) = site.examine("portal-certificate").report()
    assert result.state is CheckState.OK, result


def test_settings_that_the_broker_refuses_are_a_failure(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("broker.toml belongs to root")
    broker_permits_other_uids(site)
    (site.root / "broker.toml").write_text("peers = []\n")
    (result,) = site.examine("broker-settings").report()
    assert result.state is FAILED
    assert "peers" in result.message


def test_settings_of_the_broker_are_unknown_to_the_account_of_the_platform(site: Site) -> None:
    broker(site)
    host = CheckedHost(site.settings(), None)
    (result,) = asyncio.run(run_checks(host, [CHECKS["broker-settings"]])).report()
    assert (result.state, result.remedy) == (CheckState.UNKNOWN, "Run the command as root.")


def test_account_of_the_platform_needs_no_jobs(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root's own account may run no jobs")
    broker(site)
    asyncio.run(add_user(site.data_dir, "root"))
    (result,) = site.examine("accounts").report()
    assert result.state is CheckState.OK, result


def test_every_problem_has_a_remedy(site: Site) -> None:
    examination = asyncio.run(run_checks(CheckedHost(site.settings(), None)))
    for result in examination.report():
        assert result.message.endswith("."), result
        if result.state in (FAILED, WARNING):
            assert result.remedy, result


def test_fix_repairs_and_says_what_it_changed(site: Site) -> None:
    for plant in (secret_is_readable, folder_is_missing, write_was_interrupted):
        plant(site)
    checks = [CHECKS[name] for name in ("secrets", "data-directory", "leftovers")]
    before = asyncio.run(run_checks(CheckedHost(site.settings(), None), checks))
    said = " ".join(before.repair())
    for what in (
        "took the permissions",
        "encryption_key",
        "created",
        "hub",
        "removed",
        "webhook_key.",
    ):
        assert what in said
    after = asyncio.run(run_checks(CheckedHost(site.settings(), None), checks))
    assert [result.state for result in after.report()] == [CheckState.OK] * 3
    mode = (site.data_dir / "secrets" / "encryption_key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_fix_follows_no_link(site: Site) -> None:
    other = site.root / "other"
    other.write_text("not the platform's")
    other.chmod(0o644)
    secret_is_readable(site)
    before = site.examine("secrets")
    path = site.data_dir / "secrets" / "encryption_key"
    path.unlink()
    path.symlink_to(other)
    assert "not repaired" in " ".join(before.repair())
    assert stat.S_IMODE(other.stat().st_mode) == 0o644


def test_foreign_database_is_not_changed(site: Site) -> None:
    database_is_of_a_newer_release(site)
    asyncio.run(run_checks(CheckedHost(site.settings(), None)))
    with closing(sqlite3.connect(site.data_dir / "aitne.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
            ("9999",)
        ]


def test_missing_database_is_not_created(site: Site) -> None:
    (site.data_dir / "aitne.db").unlink()
    examination = asyncio.run(run_checks(CheckedHost(site.settings(), None)))
    states = {result.name: result.state for result in examination.report()}
    assert states["database"] is CheckState.UNKNOWN
    assert states["disk"] is not CheckState.UNKNOWN
    assert not (site.data_dir / "aitne.db").exists()


def test_check_that_hangs_or_breaks_does_not_keep_the_others_from_their_results(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def hangs(host: CheckedHost) -> Finding:
        released.wait(60)
        return make_ok_finding("It is late.")

    def breaks(host: CheckedHost) -> Finding:
        raise RuntimeError("a defect")

    monkeypatch.setattr(check_execution, "WITHIN_S", 0.2)
    chosen = [
        DoctorCheck(name, Subject.FILES, "It works.", function, needs_platform=False)
        for name, function in (("hangs", hangs), ("breaks", breaks))
    ]
    loop = asyncio.new_event_loop()
    examination = loop.run_until_complete(
        run_checks(CheckedHost(site.settings(), None), [*chosen, CHECKS["settings"]])
    )
    released.set()
    loop.close()
    states = {result.name: (result.state.value, result.message) for result in examination.report()}
    assert examination.hangs
    assert states["hangs"] == ("unknown", "The check has not ended after 0 s.")
    assert states["breaks"] == ("unknown", "It could not be checked: RuntimeError: a defect")
    assert states["settings"][0] == "ok"


def test_stopped_platform_has_the_settings_of_its_last_start(site: Site) -> None:
    config = site.root / "aitne.toml"
    config.write_text('title = "Vision"\n')
    site.patch.setattr(os, "environ", os.environ.copy())
    os.environ |= {"AITNE_CONFIG": str(config), "AITNE_CLUSTER": "vision"}
    make_plan(load_settings(site.data_dir)).write(site.data_dir / "run")
    del os.environ["AITNE_CONFIG"], os.environ["AITNE_CLUSTER"]
    config.write_text('title = "Speech"\n')  # corrected while the platform is stopped
    settings = open_host(site.data_dir).settings
    assert (settings.title, settings.cluster) == ("Speech", "vision")


def test_variables_of_the_command_take_precedence_over_the_last_start(site: Site) -> None:
    site.patch.setattr(os, "environ", os.environ.copy())
    make_plan(load_settings(site.data_dir)).write(site.data_dir / "run")
    config = site.root / "aitne.toml"
    config.write_text('title = "Vision"\n')
    os.environ["AITNE_CONFIG"] = str(config)
    assert open_host(site.data_dir).settings.title == "Vision"


def test_root_uses_no_plan_that_another_account_can_change(site: Site) -> None:
    root_or_skip()
    data_dir = site.root / "other"
    data_dir.mkdir()
    os.chown(data_dir, pwd.getpwnam("nobody").pw_uid, -1)
    folder = site.root / "other-broker"
    folder.mkdir()
    make_plan(load_settings(site.data_dir)).write(folder)
    read = read_root_files(data_dir)
    assert read is not None
    assert "AITNE_CONFIG" in read.variables
    folder.chmod(0o777)
    assert read_root_files(data_dir) == RootFiles({}, {})


def test_root_acts_as_the_owner_of_the_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    root_or_skip()
    skip_if_code_is_private()
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        data_dir = Path(parent, "data")
        data_dir.mkdir(mode=0o700)
        os.chown(data_dir, nobody, -1)
        config = Path(parent, "aitne.toml")
        config.write_text('[accounts]\nmode = "own"\nplatform = "nobody"\n')
        monkeypatch.setenv("AITNE_CONFIG", str(config))
        broker_toml = Path(parent, "data-broker", "broker.toml")
        broker_toml.parent.mkdir()
        broker_toml.touch(mode=0o600)
        broker_toml.write_text(
            'peers = ["nobody"]\n[slurm]\nspare_jobs_dir = "/var/tmp/aitne-{user}"\n'
        )
        make_plan(load_settings(data_dir)).write(broker_toml.parent)
        monkeypatch.delenv("AITNE_CONFIG")  # the plan of the last start names the settings
        words = ["admin", "doctor", "--data-dir", str(data_dir), "--fix", "--json"]
        aitne = Path(sys.executable).parent / "aitne"
        done = subprocess.run([aitne, *words], capture_output=True, text=True, check=False)
        assert "Checking as nobody" in done.stderr
        assert done.returncode == 1, done.stderr  # the platform is not running
        states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
        assert states["data-directory"] == "ok"
        assert states["broker-settings"] == "ok"  # of a file that only root can read
        assert {path.stat().st_uid for path in data_dir.iterdir()} == {nobody}


def test_results_are_stored_for_the_portal(site: Site) -> None:
    host = CheckedHost(site.settings(), None)
    store_report(host, asyncio.run(run_checks(host, [CHECKS["processes"]])))
    report = read_report(site.data_dir)
    assert report is not None
    assert [(check.name, check.state) for check in report.checks] == [("processes", FAILED)]


def test_properties_of_a_unit_are_judged() -> None:
    good = {
        "Restart": "always",
        "Type": "notify",
        "WatchdogUSec": "1min",
        "UnitFileState": "enabled",
    }
    assert list_unit_problems(good) == []
    assert list_unit_problems({**good, "WatchdogUSec": "infinity", "ActiveState": "inactive"}) == []
    bad = {
        "ActiveState": "active",
        "Restart": "no",
        "Type": "notify",
        "WatchdogUSec": "infinity",
        "UnitFileState": "disabled",
    }
    assert [text.split(" (")[0] for text in list_unit_problems(bad)] == [
        "it is not restarted",
        "its watchdog is disabled",
        "it is disabled, so it does not start at boot",
    ]
    silent = list_unit_problems({**good, "Type": "simple", "WatchdogUSec": "0"})
    assert silent == ["it does not notify systemd, so it has no watchdog (Type=notify)"]


@pytest.mark.parametrize(("ahead_s", "skew_s"), [(0, 0), (1, 0), (90, 88), (-90, -90)])
def test_clock_of_slurmctld_is_compared_within_the_time_of_the_query(
    ahead_s: int, skew_s: int
) -> None:
    output = f"Configuration data as of {1_000_000 + ahead_s}\n"
    assert slurm.compute_clock_skew(output, 1_000_000, 1_000_002) == skew_s


def test_checks_of_nodes_need_a_user(site: Site) -> None:
    site.status = {"processes": []}
    (result,) = site.examine("node-folder").report()
    assert result.state is CheckState.SKIPPED
    assert "--job-as" in result.message


def test_each_check_is_in_the_handbook() -> None:
    page = (Path(__file__).parents[3] / "docs" / "handbook" / "doctor.md").read_text()
    assert len(all_checks()) >= 40
    for check in all_checks():
        assert f"| `{check.name}` | {check.summary} |" in page
    rows = [line for line in page.splitlines() if line.count("|") == 4 and "| `" in line]
    assert len(rows) == len(CHECKS)


def test_job_of_a_node_excludes_all_other_nodes(site: Site) -> None:
    site.slurm("")
    node = Node(
        name="n2",
        state=NodeState.IDLE,
        cpu_total=1,
        cpu_used=0,
        memory_total_bytes=1 << 30,
        memory_used_bytes=0,
        partitions=("gpu",),
        seen_at=datetime.now(UTC),
    )
    file = JobFile.model_validate(make_job_file(site.settings(), node, ["n1", "n2", "n3"]))
    assert file.slurm is not None
    assert (file.slurm.partition, file.slurm.exclude) == ("gpu", "n[1,3]")
