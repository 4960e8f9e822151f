"""An upgrade that fails or is killed anywhere ends with one release that runs, its schema, and every job."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.errors import AitneError, Conflict, SetupError
from aitne.operations.upgrade.releases import COMPLETE, PROGRAMS, Releases
from aitne.operations.upgrade.upgrade_journal import (
    ROLLBACK,
    UpgradeJournal,
    UpgradeStep,
    hold_upgrade_lock,
)
from aitne.operations.upgrade.upgrade_steps import Halted, RolledBack, Upgrade, is_continued

OLD, NEW = "0.1.0", "0.2.0"
MEMORY = "/dev/shm"
SCHEMAS = {OLD: "0023", NEW: "0024"}


class Killed(BaseException):
    """The process of the upgrade was killed."""


class SmallHost:
    """A root with releases and a data directory with a database; a file states which release runs."""

    def __init__(self, folder: Path) -> None:
        self.root, self.data = folder / "root", folder / "data"
        self.data.mkdir(parents=True)
        (self.root / "bin").mkdir(parents=True)
        for name in PROGRAMS:
            (self.root / "bin" / name).write_text(OLD)
        self.releases = Releases(self.root)
        self.releases.adopt(OLD)
        self.running = self.data / "running"
        self.running.write_text(OLD)
        with self.sql() as database:
            database.execute("CREATE TABLE schema (revision)")
            database.execute("CREATE TABLE jobs (id, created_at)")
            database.execute("INSERT INTO schema VALUES (?)", (SCHEMAS[OLD],))
        self.accepted = 0
        self.fault = ""
        self.kill_at: list[int] = []
        self.job_at: list[int] = []
        self.planted: tuple[UpgradeStep, BaseException] | None = None
        self.calls = 0
        self.accept_job()

    @contextmanager
    def sql(self) -> Iterator[sqlite3.Connection]:
        """A transaction."""
        with closing(sqlite3.connect(self.data / "aitne.db")) as database, database:
            database.execute("PRAGMA synchronous=OFF")
            yield database

    def accept_job(self) -> None:
        """A user submits a job, if the platform runs."""
        if self.running.exists():
            self.accepted += 1
            with self.sql() as database:
                now = datetime.now(UTC).isoformat()
                database.execute("INSERT INTO jobs VALUES (?, ?)", (self.accepted, now))

    def jobs(self) -> list[int]:
        """The jobs in the database."""
        with self.sql() as database:
            return [number for (number,) in database.execute("SELECT id FROM jobs ORDER BY id")]

    def _point(self) -> None:
        self.calls += 1
        if self.calls in self.job_at:
            self.accept_job()
        if self.calls in self.kill_at:
            raise Killed
        if self.planted is not None:
            journal = UpgradeJournal.read(self.root)
            if journal is not None and journal.step is self.planted[0]:
                error, self.planted = self.planted[1], None
                raise error

    def _fail(self, fault: str) -> None:
        if self.fault == fault:
            raise SetupError(f"{fault}.")

    def install(self, version: str, requirement: str) -> None:
        """A folder with its programs, complete at the end."""
        self._point()
        folder = self.releases.folder(version)
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        self._point()
        self._fail("install")
        (folder / "bin" / "aitne").write_text(version)
        (folder / COMPLETE).touch()
        self._point()

    def create_backup(self, version: str) -> str:
        """A copy of the database."""
        self._point()
        self._fail("backup")
        path = self.data.parent / f"backup-{self.calls}"
        shutil.copy(self.data / "aitne.db", path)
        self._point()
        return str(path)

    def restore_backup(self, version: str, path: str) -> None:
        """The copy takes the place of the database."""
        assert not self.running.exists(), "a backup is restored over a running platform"
        self._point()
        new = self.data / "new.db"
        shutil.copy(path, new)
        new.replace(self.data / "aitne.db")
        self._point()

    def schema_revision(self) -> str | None:
        """The revision of the schema."""
        with self.sql() as database:
            revision: str = database.execute("SELECT revision FROM schema").fetchone()[0]
            return revision

    def count_jobs_since(self, time: datetime) -> int:
        """The jobs that were accepted since then."""
        with self.sql() as database:
            query = "SELECT count(*) FROM jobs WHERE created_at >= ?"
            count: int = database.execute(query, (time.isoformat(),)).fetchone()[0]
            return count

    def stop(self) -> None:
        """The platform ends."""
        self._point()
        self.running.unlink(missing_ok=True)
        self._point()

    def select(self, version: str) -> None:
        """The link is set."""
        self._point()
        self.releases.select(version)
        self._point()

    def start(self) -> None:
        """The program that ``current`` names migrates the database and runs."""
        self._point()
        version = (self.root / "bin" / "aitne").read_text()
        if version == NEW:
            self._fail("migration")
        with self.sql() as database:
            if version == OLD and self.schema_revision() != SCHEMAS[OLD]:
                raise SetupError("The database was last used by a newer release.")
            database.execute("UPDATE schema SET revision = ?", (SCHEMAS[version],))
        self._point()
        if version == NEW:
            self._fail("start")
        self.running.write_text(version)
        self._point()

    def restart(self) -> None:
        """The platform ends, and starts."""
        self.stop()
        self.start()

    def check_release(self, version: str) -> None:
        """The new release may be ill."""
        self._point()
        assert self.running.read_text() == version
        if version == NEW:
            self._fail("health")
        self._point()

    def prune(self, *keep: str) -> None:
        """Nothing else is installed."""
        self._point()


def journal_of(host: SmallHost, **changes: object) -> UpgradeJournal:
    """The journal of an upgrade that begins."""
    facts: dict[str, object] = {
        "step": UpgradeStep.INSTALL,
        "present": OLD,
        "target": NEW,
        "requirement": "aitne.whl",
        "data_dir": str(host.data),
        "was_running": True,
    }
    return UpgradeJournal.model_validate(facts | changes)


def until_ended(host: SmallHost, *, discard_jobs: bool = False) -> AitneError | None:
    """Run the command as often as it is killed; what it ended with."""
    while True:
        journal = UpgradeJournal.read(host.root) or journal_of(host)
        try:
            Upgrade(host, host.root, lambda step, line: None, discard_jobs=discard_jobs).run(
                journal
            )
        except Killed:
            continue
        except AitneError as error:
            return error
        return None


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: the journal is written to disk at each step."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


@pytest.fixture
def host(folder: Path) -> SmallHost:
    return SmallHost(folder)


FAULTS = ("", "install", "backup", "migration", "start", "health")
NUMBERS = st.lists(st.integers(1, 40), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FAULTS), NUMBERS, NUMBERS)
def test_every_end_is_one_release_with_its_schema_and_every_job(
    fault: str, kill_at: list[int], job_at: list[int]
) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        host = SmallHost(Path(folder))
        host.fault, host.kill_at, host.job_at = fault, kill_at, job_at

        error = until_ended(host)

        halted = isinstance(error, Halted)
        if not halted:
            assert UpgradeJournal.read(host.root) is None
            version = OLD if fault else NEW
            assert host.running.read_text() == version
            assert host.releases.selected == version
            assert host.schema_revision() == SCHEMAS[version]
        assert host.jobs() == list(range(1, host.accepted + 1)), "a job was lost"
        expected: dict[str, type[AitneError]] = {"install": SetupError, "backup": SetupError}
        if fault and not halted:
            assert type(error) is expected.get(fault, RolledBack)


@pytest.mark.parametrize("fault", FAULTS)
def test_upgrade_that_is_killed_at_each_point_ends_the_same_way(fault: str, folder: Path) -> None:
    undisturbed = SmallHost(folder / "undisturbed")
    undisturbed.fault = fault
    until_ended(undisturbed)
    for point in range(1, undisturbed.calls + 1):
        host = SmallHost(folder / f"{point}")
        host.fault, host.kill_at = fault, [point]
        until_ended(host)
        assert host.running.read_text() == (OLD if fault else NEW), f"killed at point {point}"


def accept_before_check(host: SmallHost) -> Callable[[str], None]:
    """The new release accepts a job before it turns out to be ill."""
    check = host.check_release

    def accepting(version: str) -> None:
        host.accept_job()
        check(version)

    return accepting


def test_rollback_that_would_lose_a_job_halts_until_the_administrator_decides(
    host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "check_release", accept_before_check(host))
    host.fault = "health"

    error = until_ended(host)

    assert isinstance(error, Halted)
    assert "1 job was accepted since the backup" in error.message
    assert host.running.read_text() == NEW
    assert host.jobs() == [1, 2]
    monkeypatch.undo()
    assert isinstance(until_ended(host), Halted), "it is checked again"
    assert isinstance(until_ended(host, discard_jobs=True), RolledBack)
    assert host.running.read_text() == OLD
    assert host.jobs() == [1]


def test_halted_upgrade_ends_when_the_cause_is_corrected(
    host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "check_release", accept_before_check(host))
    host.fault = "health"
    until_ended(host)
    monkeypatch.undo()
    host.fault = ""
    assert until_ended(host) is None
    assert (host.running.read_text(), host.jobs()) == (NEW, [1, 2])


def test_upgrade_of_a_stopped_platform_does_not_start_it(host: SmallHost) -> None:
    host.running.unlink()
    Upgrade(host, host.root, lambda step, line: None).run(journal_of(host, was_running=False))
    assert host.releases.selected == NEW
    assert not host.running.exists()


def test_interrupted_upgrade_is_continued_before_another_begins(host: SmallHost) -> None:
    begun, switched = journal_of(host), journal_of(host, step=UpgradeStep.SWITCH)
    assert is_continued(begun, None)
    assert is_continued(switched, NEW)
    assert not is_continued(begun, "0.2.1")
    with pytest.raises(Conflict, match=r"upgrade to 0\.2\.0 was interrupted"):
        is_continued(switched, "0.2.1")
    with pytest.raises(Conflict, match="rollback of the upgrade"):
        is_continued(journal_of(host, step=UpgradeStep.RESTORE), "0.2.1")


def test_second_upgrade_at_the_same_time_is_refused(host: SmallHost) -> None:
    with (
        hold_upgrade_lock(host.root),
        pytest.raises(Conflict, match="Another upgrade"),
        hold_upgrade_lock(host.root),
    ):
        pass


def test_journal_that_cannot_be_read_is_reported(host: SmallHost) -> None:
    (host.root / "upgrade.json").write_text("{")
    with pytest.raises(SetupError, match="cannot be read"):
        UpgradeJournal.read(host.root)


def test_upgrade_that_ends_unexpectedly_before_the_switch_does_not_block_the_next(
    host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(version: str, requirement: str) -> None:
        raise ValueError("unexpected")

    monkeypatch.setattr(host, "install", broken)
    with pytest.raises(SetupError, match=r"unexpected\. Nothing that runs has changed"):
        Upgrade(host, host.root, lambda step, line: None).run(journal_of(host))
    assert UpgradeJournal.read(host.root) is None


UNEXPECTED = (
    TypeError("planted"),
    OSError(errno.ENOSPC, "No space left on device"),
    KeyboardInterrupt(),
    SystemExit(143),
)


@pytest.mark.parametrize("error", UNEXPECTED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("step", UpgradeStep)
def test_step_that_raises_anything_ends_with_the_earlier_release(
    step: UpgradeStep, error: BaseException, host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.planted = (step, error)
    if step in ROLLBACK or step is UpgradeStep.HALT:
        host.fault = "health"
    if step is UpgradeStep.HALT:
        monkeypatch.setattr(host, "check_release", accept_before_check(host))
    said: list[str] = []
    run = Upgrade(host, host.root, lambda _, line: said.append(line)).run
    with pytest.raises((AitneError, KeyboardInterrupt, SystemExit)) as raised:
        run(journal_of(host))

    assert host.planted is None, "it was raised"
    before = step in (UpgradeStep.INSTALL, UpgradeStep.BACKUP)
    if step is UpgradeStep.HALT:
        assert host.jobs() == [1, 2]
        assert raised.type is Halted or raised.value is error
        assert UpgradeJournal.read(host.root) is not None, "the administrator decides"
        return
    assert host.running.read_text() == host.releases.selected == OLD
    assert host.schema_revision() == SCHEMAS[OLD]
    assert UpgradeJournal.read(host.root) is None
    if not before:
        assert raised.type is RolledBack
        assert "0.1.0 is in use again" in str(raised.value)
    elif isinstance(error, Exception):
        assert "release 0.1.0 is in use" in str(raised.value)
    else:
        assert raised.value is error
        assert "release 0.1.0 is in use" in said[-1]


@pytest.mark.parametrize("step", UpgradeStep)
def test_full_disk_does_not_keep_the_earlier_release_from_running(
    step: UpgradeStep, host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, full = UpgradeJournal.write, False
    host.fault = "start" if step in ROLLBACK else ""

    def refused(journal: UpgradeJournal, root: Path) -> None:
        nonlocal full
        full = full or journal.step is step
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(journal, root)

    monkeypatch.setattr(UpgradeJournal, "write", refused)
    with contextlib.suppress(SetupError):
        Upgrade(host, host.root, lambda _, line: None).run(journal_of(host))
    assert host.running.read_text() == (NEW if step is UpgradeStep.HALT else OLD)
    assert UpgradeJournal.read(host.root) is None


@pytest.mark.parametrize("step", ROLLBACK)
def test_return_that_fails_again_is_continued_by_the_next_run(
    step: UpgradeStep, host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.fault = "health"
    point = host._point

    def broken() -> None:
        host.planted = (step, TypeError("planted"))
        point()

    with monkeypatch.context() as patch:
        patch.setattr(host, "_point", broken)
        error = until_ended(host)
    assert error is not None
    assert f"has failed at the step {step}: TypeError: planted." in error.message
    assert "`aitne admin upgrade`, which continues it" in error.message

    host.planted = None
    assert isinstance(until_ended(host), RolledBack)
    assert host.running.read_text() == OLD


def test_platform_that_did_not_run_is_not_started_by_a_return(
    host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.stop()
    host.planted = (UpgradeStep.SWITCH, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(RolledBack, match="No space left on device"):
        Upgrade(host, host.root, lambda _, line: None).run(journal_of(host, was_running=False))
    assert host.releases.selected == OLD
    assert not host.running.exists()


def test_release_that_cannot_be_removed_does_not_undo_the_upgrade(
    host: SmallHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*keep: str) -> None:
        raise OSError(errno.EACCES, "Permission denied", "/opt/aitne/releases/0.0.9")

    monkeypatch.setattr(host, "prune", broken)
    said: list[str] = []
    Upgrade(host, host.root, lambda _, line: said.append(line)).run(journal_of(host))
    assert host.running.read_text() == NEW
    assert "/opt/aitne/releases/0.0.9" in said[-1]
