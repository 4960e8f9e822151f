"""A supervisor of root runs the platform as an account of its own, and the broker as root."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.local_system import hung_restart_records
from aitne.supervisor import platform_control
from aitne.supervisor.supervisor_plan import LIVE, ChildPlan, plan_dir
from tests.integration.supervisor.conftest import Supervised
from tests.support import realtime
from tests.support.alive import alive
from tests.support.own_accounts import (
    open_folder,
    process_account,
    readable_python,
    system_account,
)
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

BROKER = """
import os, time
while True:
    os.write(int(os.environ["AITNE_HEARTBEAT_FD"]), b".")
    time.sleep(0.1)
"""


def status_of(pid: int, field: str) -> list[str]:
    """Return the values of a field in `/proc/<pid>/status`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{field}:"))


@pytest.fixture
def supervised() -> Iterator[Supervised]:
    with system_account() as name, open_folder() as folder:
        account, python = process_account(name), str(readable_python())
        data_dir = folder / "data"
        data_dir.mkdir(mode=0o700)
        os.chown(data_dir, account.uid, account.gid)
        plan_dir(data_dir).mkdir()
        broker = ChildPlan(
            "broker",
            [python, "-c", BROKER],
            heartbeat=True,
            hung_after_s=2.0,
            as_root=True,
            env={"PATH": os.environ["PATH"]},
        )
        one = Supervised(data_dir, account, python, [broker])
        yield one
        platform_control.stop_platform(data_dir, keep_jobs=True)
        for pid in one.pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_platform_runs_as_its_account_and_the_broker_as_root(supervised: Supervised) -> None:
    account = supervised.account
    assert account is not None
    uid = str(account.uid)
    supervised.start()
    supervised.until_ready()
    for name in ("api", "controller", "hub", "proxy"):
        pid = supervised.pid(name)
        assert status_of(pid, "Uid") == [uid] * 4
        assert status_of(pid, "Groups") == [str(account.gid)]
        assert status_of(pid, "CapEff") == ["0" * 16]
        assert status_of(pid, "NoNewPrivs") == ["1"]
    broker = supervised.pid("broker")
    assert status_of(broker, "Uid") == ["0"] * 4
    assert b"AITNE_" not in Path(f"/proc/{broker}/environ").read_bytes().replace(
        b"AITNE_HEARTBEAT_FD", b""
    )
    supervisor = supervised.status()["supervisor_pid"]
    assert status_of(supervisor, "Uid")[:2] == ["0", uid]
    owners = {path.lstat().st_uid for path in supervised.data_dir.rglob("*")}
    assert owners == {account.uid}, "a file is left that the platform cannot write"
    assert (supervised.data_dir / "run" / LIVE).read_text() == "own\n"

    os.kill(broker, signal.SIGSTOP)
    eventually("the hung broker is replaced", lambda: supervised.pid("broker") not in (0, broker))
    supervised.until_ready()
    assert hung_restart_records.read_restart_counts(supervised.data_dir / "run") == {"broker": 1}

    os.kill(supervised.pid("api"), signal.SIGKILL)
    supervised.until_ready()
    assert status_of(supervised.pid("api"), "Uid") == [uid] * 4

    os.kill(supervisor, signal.SIGKILL)
    eventually("all processes end with it", lambda: not any(map(alive, supervised.pids)))


def test_jobs_that_were_left_are_ended_through_a_broker(supervised: Supervised) -> None:
    marker = plan_dir(supervised.data_dir) / "broker-ran"
    beats = supervised.more[0]
    code = f"open({str(marker)!r}, 'w'); import time; time.sleep(100)"
    supervised.more = [ChildPlan("broker", [*beats.argv[:2], code], as_root=True)]
    supervised.start()
    supervised.until_ready()
    platform_control.stop_platform(supervised.data_dir, keep_jobs=True)
    marker.unlink(missing_ok=True)
    waits = f"import os, time\nwhile not os.path.exists({str(marker)!r}): time.sleep(0.02)"
    supervised.drain = [supervised.python, "-c", waits]
    os.chmod(marker.parent, 0o711)
    supervised.start("--detach")
    supervised.until_ready()
    platform_control.stop_platform(supervised.data_dir, keep_jobs=True)
    marker.unlink()
    assert platform_control.stop_platform(supervised.data_dir, keep_jobs=False)
    assert marker.exists()
    assert not (supervised.data_dir / "run" / LIVE).exists()


def test_link_in_the_data_directory_leads_root_nowhere(supervised: Supervised) -> None:
    account = supervised.account
    assert account is not None
    of_root = plan_dir(supervised.data_dir) / "of-root"
    of_root.write_text("untouched")
    of_root.chmod(0o600)
    log = supervised.data_dir / "logs" / "proxy.log"
    log.symlink_to(of_root)
    os.chown(log, account.uid, account.gid, follow_symlinks=False)
    supervised.start()
    failure = plan_dir(supervised.data_dir) / "failure"
    eventually("the start fails", failure.exists)
    assert of_root.read_text() == "untouched"
