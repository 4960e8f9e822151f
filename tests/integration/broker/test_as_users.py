"""The broker acts with the rights of the user and in the folders of that user's jobs only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from uuid import uuid4

import pytest

from aitne.adapters.broker_scheduler import BrokerFiles, BrokerScheduler
from aitne.core.errors import NotAllowed, SchedulerRejected, Unavailable
from aitne.core.ports.job_files import Fence, JobLocation
from aitne.core.ports.scheduler import Run
from tests.support import realtime
from tests.support.broker import BrokerBench, as_uid, processes_of

pytestmark = realtime.PROCESSES

SECRET = "a word that only root may read"


def facts(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


async def test_a_jobs_files_belong_to_its_user(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    for user in ("anna", "ben"):
        request = shared_bench.request(user)

        assert await scheduler.submit(request)

        owner, folder = (shared_bench.uid(user), shared_bench.gid(user)), Path(request.job_dir)
        assert facts(folder) == facts(folder.parent) == (*owner, 0o700)
        assert facts(folder / "token") == (*owner, 0o600)
        assert (folder / "token").read_bytes() == b"\xff\x00secret"
        assert {path.name for path in folder.iterdir()} == {"agent.json", "token"}


async def test_writing_again_replaces_and_leaves_the_fence(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {"token": b"one"})
    assert await files.read_fence(place, None) is None
    Path(place.directory, "fence").write_text('{"owner": "7", "restart_count": 2}')

    await files.create_attempt_folder(place, {"token": b"two"})

    assert Path(place.directory, "token").read_bytes() == b"two"
    assert await files.read_fence(place, None) == Fence(owner="7", restart_count=2)
    assert await files.close_fence(place, None) == Fence(owner="7", restart_count=2)
    assert (await files.close_fence(place, 3)).owner == "platform"
    assert facts(Path(place.directory, "fence-3"))[0] == shared_bench.uid("anna")


async def test_files_are_not_created_in_folders_writable_by_others(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    """The parent folder is writable by all accounts, and another account created it."""
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {"token": b"one"})
    folder = Path(place.folder).parent
    folder.chmod(0o777)
    try:
        for owner, what in ((shared_bench.uid("ben"), "belongs to uid"), (0, "mode 0777")):
            os.chown(folder, owner, -1)
            with pytest.raises(Unavailable, match=what):
                await files.create_attempt_folder(place, {"token": b"two"})
            with pytest.raises(Unavailable, match=what):
                await files.read_fence(place, None)
        folder.chmod(0o1777)
        await files.create_attempt_folder(place, {"token": b"three"})
    finally:
        folder.chmod(0o700)
        os.chown(folder, shared_bench.uid("anna"), -1)


async def test_a_link_of_another_account_in_the_place_of_the_jobs_folder_leads_nowhere(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    """It leads to a folder of the user, and could lead to another one when the job starts."""
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {"token": b"one"})
    folder = Path(place.folder).parent
    moved = folder.rename(folder.with_name("moved"))
    try:
        folder.symlink_to(moved)
        os.lchown(folder, shared_bench.uid("ben"), -1)
        with pytest.raises(Unavailable, match="is a link of uid"):
            await files.create_attempt_folder(place, {"token": b"two"})
        with pytest.raises(Unavailable, match="is a link of uid"):
            await files.read_fence(place, None)
        assert Path(moved, str(place.job_id), "1", "token").read_bytes() == b"one"
        os.lchown(folder, shared_bench.uid("anna"), -1)
        await files.create_attempt_folder(place, {"token": b"three"})
    finally:
        folder.unlink()
        moved.rename(folder)


async def test_a_fence_in_a_folder_that_is_not_there_proves_nothing(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        await files.read_fence(shared_bench.place("anna", uuid4()), None)


async def test_a_log_is_read_from_either_end(shared_bench: BrokerBench, files: BrokerFiles) -> None:
    place = shared_bench.place("ben", uuid4())
    assert (await files.read_log(place, None, offset=0, limit=10)).data == b""
    await files.create_attempt_folder(place, {})
    Path(place.directory, "output.log").write_bytes(b"\xff first\nlast\n")

    head = await files.read_log(place, None, offset=0, limit=3)
    tail = await files.read_log(place, None, offset=-5, limit=100)

    assert (head.data, head.size) == (b"\xff f", 13)
    assert (tail.data, tail.offset) == (b"last\n", 8)


async def test_a_log_is_read_with_the_users_rights_only(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {})
    log = Path(place.directory, "output.log")
    log.write_text(SECRET)  # root's, as an earlier mistake may have left it
    log.chmod(0o600)

    with pytest.raises(Unavailable, match="Permission denied"):
        await files.read_log(place, None, offset=0, limit=100)


@pytest.mark.parametrize("target", ["/etc/shadow", "/etc/passwd", "secret"])
async def test_a_link_in_a_logs_place_leads_nowhere(
    shared_bench: BrokerBench, files: BrokerFiles, target: str
) -> None:
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {})
    secret = shared_bench.root / "secret"
    secret.write_text(SECRET)
    where = target if target.startswith("/") else str(secret)
    link = str(Path(place.directory, "output.log"))
    as_uid(shared_bench.uid("anna"), lambda: os.symlink(where, link))

    with pytest.raises(Unavailable):
        await files.read_log(place, None, offset=0, limit=1_000)


async def test_result_of_a_function_is_read_with_the_users_rights_only(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("ben", uuid4())
    await files.create_attempt_folder(place, {})
    result = Path(place.directory, "result.0")
    result.write_bytes(b"\xff pickle")
    result.chmod(0o644)
    part = await files.read_file(place, "result.0", offset=2, limit=3)
    assert part is not None
    assert (part.data, part.offset, part.size) == (b"pic", 2, 8)
    assert await files.read_file(place, "result.1", offset=0, limit=3) is None
    result.chmod(0o600)  # root's: no file of the job's account
    with pytest.raises(Unavailable, match="Permission denied"):
        await files.read_file(place, "result.0", offset=0, limit=3)


@pytest.mark.parametrize("level", ["job", "attempt"])
async def test_a_link_in_a_folders_place_leads_nowhere(
    shared_bench: BrokerBench, files: BrokerFiles, scheduler: BrokerScheduler, level: str
) -> None:
    """The user replaces the job's folder by a link to a folder with another user's log."""
    elsewhere = shared_bench.root / f"elsewhere-{level}"
    for folder in (elsewhere, elsewhere / "1"):
        folder.mkdir(mode=0o700)
        os.chown(folder, shared_bench.uid("anna"), -1)
        (folder / "output.log").write_text(SECRET)
    place = shared_bench.place("anna", uuid4())
    job = Path(place.folder)

    def plant() -> None:
        os.makedirs(job.parent, exist_ok=True)
        if level == "job":
            os.symlink(elsewhere, job)
        else:
            os.mkdir(job)
            os.symlink(elsewhere, job / "1")

    as_uid(shared_bench.uid("anna"), plant)

    with pytest.raises(Unavailable):
        await files.read_log(place, None, offset=0, limit=100)
    with pytest.raises(Unavailable):
        await scheduler.submit(shared_bench.request(job_id=place.job_id))
    assert sorted(path.name for path in elsewhere.rglob("*")) == ["1", "output.log", "output.log"]


async def test_a_pipe_in_a_logs_place_holds_nobody_up(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(place, {})
    os.mkfifo(Path(place.directory, "output.log"), 0o666)
    os.mkfifo(Path(place.directory, "fence"), 0o666)

    assert (await files.read_log(place, None, offset=0, limit=100)).size == 0
    with pytest.raises(Unavailable):
        await files.read_fence(place, None)


async def test_only_the_accounts_own_jobs_folder_is_touched(
    shared_bench: BrokerBench, files: BrokerFiles, scheduler: BrokerScheduler
) -> None:
    anna, job_id = shared_bench.jobs["anna"], uuid4()
    theirs = shared_bench.jobs["ben"] / str(job_id) / "1"
    for wrong in (theirs, Path("/etc/cron.d"), anna / str(uuid4()) / "1", anna / str(job_id) / "2"):
        with pytest.raises(SchedulerRejected, match="other folders are not used"):
            await scheduler.submit(shared_bench.request(job_id=job_id, job_dir=str(wrong)))
    assert not theirs.exists()
    for folder in (f"{anna}/x/../{job_id}", f"{anna}//{job_id}", "/etc", str(theirs.parent)):
        place = JobLocation(
            job_id=job_id, attempt=1, folder=folder, account=shared_bench.users["anna"]
        )
        with pytest.raises(NotAllowed):
            await files.read_log(place, None, offset=0, limit=1)
    assert shared_bench.audited(verb="read_log", outcome="refused")


@pytest.mark.parametrize(
    ("account", "why"),
    [("root", "uid 0"), ("nobody", "uid 65534"), ("daemon", "uid 1 "), ("nosuchone", "no Unix")],
)
async def test_accounts_that_jobs_may_not_run_as(
    shared_bench: BrokerBench,
    files: BrokerFiles,
    scheduler: BrokerScheduler,
    account: str,
    why: str,
) -> None:
    request = shared_bench.request(account=account)
    with pytest.raises(SchedulerRejected, match=why) as refused:
        await scheduler.submit(request)
    assert refused.value.field == "account"
    run = Run(job_id=request.job_id, attempt=1, account=account, scheduler_id="1")
    with pytest.raises(NotAllowed, match=why):
        await scheduler.cancel(run)
    with pytest.raises(SchedulerRejected, match=why):
        await scheduler.extend(run, 600)
    place = shared_bench.place("anna", request.job_id).model_copy(update={"account": account})
    with pytest.raises(NotAllowed, match=why):
        await files.read_log(place, None, offset=0, limit=1)
    assert shared_bench.audited(verb="submit", account=account, outcome="refused")


async def test_acting_without_an_account_is_refused(
    shared_bench: BrokerBench, scheduler: BrokerScheduler
) -> None:
    with pytest.raises(SchedulerRejected, match="account"):
        await scheduler.submit(shared_bench.request(account=None))
    with pytest.raises(NotAllowed, match="the request names none"):
        await scheduler.cancel(Run(job_id=uuid4(), attempt=1, scheduler_id="1"))


async def test_a_user_who_ends_his_own_helper_is_served_again(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("ben", uuid4())
    await files.create_attempt_folder(place, {})
    uid = shared_bench.uid("ben")
    # Its line closes a little before it is gone: now and then the next question falls between the two.
    for _ in range(30):
        mine = processes_of(uid)
        assert mine, "the helper runs as its user"
        for pid in mine:
            try:
                status = Path("/proc", str(pid), "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # one that was killed before, and has ended since
            assert "CapEff:\t0000000000000000" in status
            assert "CapPrm:\t0000000000000000" in status
            assert "NoNewPrivs:\t1" in status
            # Its memory is a copy of what was root's: its own user cannot look into it.
            assert as_uid(uid, lambda pid=pid: os.access(f"/proc/{pid}/mem", os.R_OK)) is False
        for pid in mine:
            as_uid(uid, lambda pid=pid: os.kill(pid, 9))
        assert (await files.read_log(place, None, offset=0, limit=1)).size == 0


async def test_an_ended_job_keeps_four_inodes_and_is_removed_as_its_user(
    shared_bench: BrokerBench, files: BrokerFiles
) -> None:
    place = shared_bench.place("anna", uuid4())
    await files.create_attempt_folder(
        place, {"agent.json": b"{}", "token": b"one", "script.sh": b"true"}
    )
    folder = Path(place.directory)
    for name in ("fence", "outcome", "output.log"):
        (folder / name).write_text("x")
    (folder / "link").symlink_to("/etc")
    size = await files.remove_unneeded_files(place)
    assert sorted(path.name for path in folder.iterdir()) == ["fence", "link", "output.log"]
    assert size is not None
    assert size.files == 5  # with the user's own link
    with pytest.raises(NotAllowed):
        await files.remove_job_folder(place.model_copy(update={"folder": "/etc"}))
    foreign = folder / "of-root"
    foreign.mkdir(mode=0o700)
    (foreign / "file").write_text("x")
    with pytest.raises(Unavailable, match="cannot be removed"):
        await files.remove_job_folder(place)
    os.chown(foreign, shared_bench.uid("anna"), -1)
    assert (await files.remove_job_folder(place)).done
    assert not folder.parent.exists()
    assert Path("/etc/passwd").exists()
    assert (await files.remove_job_folder(place)).done
