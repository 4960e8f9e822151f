"""Errors of SQLite databases and their messages, which name a remedy."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import stat
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection

from aitne.core.errors import NotFound, SetupError, StoreUnavailable
from aitne.core.models.job import JobFilter
from aitne.store import Store, sqlite_file_checks
from aitne.store.database_address import parse_address
from tests.support.jobs import make_job, make_spec
from tests.support.postgres import PostgresServer

_STORES_A_JOB = """
import asyncio, os, sys
from pathlib import Path
from aitne.bootstrap.platform_services import build_platform
from aitne.core.settings import Settings
from tests.support.jobs import make_job

async def main():
    folder, scheduler = Path(sys.argv[1]), sys.argv[2]
    slurm = {"software_dir": folder}
    store = build_platform(Settings(data_dir=folder, scheduler=scheduler, slurm=slurm)).store
    await store.start()
    await store.create_job(make_job())
    os.write(1, b"begin")
    await store.create_job(make_job())
    os.write(1, b"answer")
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "aitne.db"


async def start(path: Path) -> Store:
    store = Store(f"sqlite:///{path}")
    await store.start()
    return store


async def refusal(path: Path) -> str:
    store = Store(f"sqlite:///{path}")
    with pytest.raises(SetupError) as caught:
        await store.start()
    await store.close()
    return caught.value.message


class TestAddress:
    @pytest.mark.parametrize(
        "url", ["", "mysql://x/y", "sqlite://", "sqlite:///:memory:", "x", "/a"]
    )
    def test_unsupported_database_address_is_refused(self, url: str) -> None:
        with pytest.raises(SetupError, match="postgresql://user@host/name"):
            Store(url)

    async def test_a_path_is_taken_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "odd ?mode=ro&x=%41#🚀 dir" / "aitne.db"
        store = await start(path)
        await store.create_job(make_job())
        assert await store.wait_for_change(1)
        await store.close()
        assert path.exists()

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://ada:geheim@host/name", "postgresql://ada:***@host/name"),
            ("postgres:///name?password=geheim&x=1", "postgres:///name?password=***&x=1"),
            ("postgresql://a:geheim@x@[::1]:1,h2/n", "postgresql://a:***@[::1]:1,h2/n"),
            ("postgresql://u@h1:5432,h2:5432/db", "postgresql://u@h1:5432,h2:5432/db"),
        ],
    )
    def test_a_password_is_never_shown(self, url: str, shown: str) -> None:
        address = parse_address(url)
        assert (address.shown, address.dsn) == (shown, url)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://u@h1:,h2:5432/db",
            "postgresql://u@h1:70000/db",
            "postgresql://u@h1:0/db",
            "postgresql://u:gehe/im@host/db",
            "postgresql://[::1/db",
            "postgresql://a b:1/db",
        ],
    )
    def test_a_host_or_port_that_cannot_be_one_is_a_sentence(self, url: str) -> None:
        with pytest.raises(SetupError, match="invalid host or port") as caught:
            Store(url)
        assert "gehe" not in caught.value.message

    @pytest.mark.parametrize("option", ["port=abc", "target_session_attrs=fastest"])
    async def test_an_option_that_cannot_be_one_is_a_sentence(self, option: str) -> None:
        store = Store(f"postgresql:///db?host=127.0.0.1&{option}")
        with pytest.raises(SetupError, match="setting database has an option"):
            await store.start()
        await store.close()

    @pytest.mark.postgres
    async def test_the_host_that_answers_is_taken_of_several(self, postgres_url: str) -> None:
        store = Store(postgres_url.replace("@", "@127.0.0.1:1,"))
        await store.start()
        await store.create_job(make_job())
        assert await store.wait_for_change(1)
        await store.close()

    @pytest.mark.postgres
    async def test_a_socket_in_libpqs_spelling(
        self, postgres_server: PostgresServer, postgres_url: str
    ) -> None:
        store = Store(postgres_server.socket_url(postgres_url.rpartition("/")[2]))
        await store.start()
        await store.ping()
        await store.wait_for_change(0.1)
        await store.close()


class TestSqliteFile:
    async def test_sqlite_file_is_accessible_to_its_owner_only(self, path: Path) -> None:
        path.parent.mkdir()
        path.touch(0o644)
        store = await start(path)
        await store.create_job(make_job())
        modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        assert modes == {0o600}
        await store.close()

    @pytest.mark.parametrize(("outlived", "synchronous"), [(False, 1), (True, 2)])
    async def test_how_connections_are_set_up(
        self, path: Path, outlived: bool, synchronous: int
    ) -> None:
        store = Store(f"sqlite:///{path}", outlived=outlived)
        await store.start()
        async with store._db.raw_read() as connection:
            found = [
                (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar()
                for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
            ]
        assert found == ["wal", 1, synchronous, 15_000]
        await store.close()

    @pytest.mark.skipif(shutil.which("strace") is None, reason="takes strace, to see the fsync")
    @pytest.mark.parametrize(("scheduler", "synced"), [("slurm", True), ("local", False)])
    async def test_a_job_is_on_the_disk_before_it_is_answered_where_it_outlives_the_machine(
        self, path: Path, scheduler: str, synced: bool
    ) -> None:
        await (await start(path)).close()
        program = [sys.executable, "-c", _STORES_A_JOB, str(path.parent), scheduler]
        trace = path.with_name("trace")
        strace = ["strace", "-f", "-y", "-o", str(trace), "-e", "trace=write,fsync,fdatasync"]
        process = await asyncio.create_subprocess_exec(
            *strace, *program, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        if b"PTRACE" in said:
            pytest.skip(f"nothing can be traced here: {said.decode()}")
        assert process.returncode == 0, said.decode()
        lines = trace.read_text().splitlines()
        begin, answer = (
            next(place for place, line in enumerate(lines) if f'"{word}"' in line)
            for word in ("begin", "answer")
        )
        found = [line for line in lines[begin:answer] if "sync(" in line and "aitne.db-wal" in line]
        assert bool(found) is synced, lines[begin:answer]

    @pytest.mark.parametrize("content", [b"not a database at all\n" * 500, b"x" * 16])
    async def test_not_a_database(self, path: Path, content: bytes) -> None:
        path.parent.mkdir()
        path.write_bytes(content)
        message = await refusal(path)
        assert str(path) in message
        assert "backup" in message
        assert path.read_bytes() == content

    async def test_damaged_in_the_middle(self, path: Path) -> None:
        store = await start(path)
        for _ in range(60):
            await store.create_job(make_job(spec=make_spec(commands=("x" * 3_000,))))
        await store.close()
        content = bytearray(path.read_bytes())
        random.Random(1).shuffle(middle := content[8_192 : len(content) // 2])
        content[8_192 : len(content) // 2] = middle
        path.write_bytes(content)
        message = await refusal(path)
        assert "is damaged" in message
        assert "backup" in message

    async def test_damaged_while_in_use(self, path: Path) -> None:
        await _make_and_close(path)
        empty = path.stat().st_size
        store = await start(path)
        for _ in range(60):
            await store.create_job(make_job(spec=make_spec(commands=("x" * 3_000,))))
        await store.close()
        sqlite_file_checks._CHECKED_BELOW_BYTES, before = 0, sqlite_file_checks._CHECKED_BELOW_BYTES
        try:
            content = path.read_bytes()
            path.write_bytes(content[:empty] + b"\xa5" * (len(content) - empty))
            store = await start(path)
        finally:
            sqlite_file_checks._CHECKED_BELOW_BYTES = before
        with pytest.raises(StoreUnavailable, match=r"is damaged.*backup"):
            await store.list_jobs(JobFilter(), visible_to=None)
        await store.close()

    async def test_a_folder_in_its_place(self, path: Path) -> None:
        path.mkdir(parents=True)
        assert "--data-dir" in await refusal(path)

    async def test_a_file_where_its_folder_should_be(self, path: Path) -> None:
        path.parent.touch()
        assert "--data-dir" in await refusal(path)

    async def test_a_place_where_nobody_may_write(self) -> None:
        message = await refusal(Path("/proc/aitne/aitne.db"))
        assert "/proc/aitne" in message
        assert "--data-dir" in message

    @pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to become somebody else")
    @pytest.mark.parametrize("readonly", ["the folder", "the file"])
    def test_a_read_only_place(self, readonly: str) -> None:
        # Not pytest's folder, which is closed to others anyway.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "aitne.db")
            asyncio.run(_make_and_close(path))
            path.parent.chmod(0o555 if readonly == "the folder" else 0o777)
            path.chmod(0o666 if readonly == "the folder" else 0o444)
            os.seteuid(65_534)
            try:
                with pytest.raises(SetupError) as caught:
                    sqlite_file_checks.prepare_file(path)
            finally:
                os.seteuid(0)
        wrong = path.parent if readonly == "the folder" else path
        assert f"{wrong} cannot be written by" in caught.value.message
        assert "(uid 65534)" in caught.value.message

    async def test_a_full_disk(self, path: Path) -> None:
        """SQLite's own limit on pages gives the very error that a full disk does."""
        store = await start(path)

        @event.listens_for(store._db._engine.sync_engine, "checkout")
        def _limit(connection: DBAPIConnection, *_: object) -> None:
            connection.cursor().execute("PRAGMA max_page_count=90")

        big = make_spec(commands=("x" * 9_000,))
        made = await asyncio.gather(
            *(store.create_job(make_job(spec=big)) for _ in range(100)), return_exceptions=True
        )
        refused = [result for result in made if isinstance(result, BaseException)]
        assert refused
        for error in refused:
            assert isinstance(error, StoreUnavailable)
            assert "is full. Free some space" in error.message
        stored = await store.list_jobs(JobFilter(), visible_to=None)
        assert (await store.get_outbox_depth())[0] == stored.total, "half a job was stored"
        await store.ping()
        await store.close()

    async def test_a_disk_that_is_full_from_the_start(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: Path) -> None:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        monkeypatch.setattr(sqlite_file_checks, "prepare_file", full)
        assert "disk" in await refusal(path)

    async def test_locked_by_a_process_that_hangs(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await start(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as hung:
            hung.execute("BEGIN IMMEDIATE")

            @event.listens_for(store._db._engine.sync_engine, "checkout")
            def _hurry(connection: DBAPIConnection, *_: object) -> None:
                connection.cursor().execute("PRAGMA busy_timeout=50")

            with pytest.raises(StoreUnavailable, match="locked"):
                await store.create_job(make_job())
            assert (await store.list_jobs(JobFilter(), visible_to=None)).total == 0, "reads go on"
            hung.execute("ROLLBACK")
        await store.create_job(make_job())
        await store.close()

    async def test_a_commit_survives_kill_minus_nine(self, path: Path) -> None:
        code = (
            "import asyncio, os, signal, sys\n"
            "from aitne.store import Store\n"
            "async def main():\n"
            "    store = Store(f'sqlite:///{sys.argv[1]}')\n"
            "    await store.start()\n"
            "    await store.add_event('announcement', {})\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "asyncio.run(main())"
        )
        done = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path))
        assert await done.wait() == -9
        store = await start(path)
        assert len(await store.list_events_after(0)) == 1
        await store.close()


async def _make_and_close(path: Path) -> None:
    await (await start(path)).close()


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 27 0:40 / /home rw,relatime shared:1 - nfs4 server:/export rw,vers=4.2
32 31 8:1 / /home/local\\040disk rw,relatime - xfs /dev/sda1 rw
33 27 0:41 / /beegfs rw - beegfs beegfs_nodev rw
34 27 0:42 / /ssh rw - fuse.sshfs ada@host: rw
35 27 0:43 / /over rw - overlay overlay rw,lowerdir=/a
36 27 0:44 / /over rw - cifs //server/share rw
a broken line
"""


class TestNetworkFileSystems:
    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/var/lib/aitne", "ext4"),
            ("/home", "nfs4"),
            ("/home/ada/.local/share", "nfs4"),
            ("/home/local disk/aitne", "xfs"),
            ("/homely", "ext4"),
            ("/over/x", "cifs"),
        ],
    )
    def test_file_system_of_path_is_determined(self, path: str, kind: str) -> None:
        assert sqlite_file_checks.find_file_system_type(Path(path), MOUNTS) == kind

    @pytest.mark.parametrize("path", ["/home/ada", "/beegfs/x", "/ssh", "/over"])
    def test_network_file_systems_are_refused(
        self, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "mountinfo").write_text(MOUNTS)
        monkeypatch.setattr(sqlite_file_checks, "_MOUNTS", tmp_path / "mountinfo")
        with pytest.raises(SetupError, match=r"network file system.*--data-dir.*postgresql://"):
            sqlite_file_checks.check_not_on_network(Path(path))

    def test_local_file_systems_are_accepted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sqlite_file_checks.check_not_on_network(tmp_path)
        monkeypatch.setattr(sqlite_file_checks, "_MOUNTS", tmp_path / "nothing")
        sqlite_file_checks.check_not_on_network(Path("/home"))

    async def test_a_start_there_makes_no_file(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mounts = path.parent.with_name("mountinfo")
        mounts.write_text("27 1 254:0 / / rw - nfs server:/ rw\n")
        monkeypatch.setattr(sqlite_file_checks, "_MOUNTS", mounts)
        assert "(nfs)" in await refusal(path)
        assert not path.exists()


class TestCancelledCallers:
    async def test_a_write_happens_whole_or_not_at_all(self, store: Store) -> None:
        """A browser that goes away cancels its request at any point of it."""
        rng = random.Random(3)
        jobs = [make_job() for _ in range(60)]
        # asyncpg leaves a future behind when a query is cancelled; it would be reported when freed.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)

        async def give_up(index: int) -> None:
            task = asyncio.create_task(store.create_job(jobs[index]))
            await asyncio.wait([task], timeout=60 if index % 10 == 0 else rng.uniform(0, 0.06))
            task.cancel()
            await asyncio.wait([task])

        for start_at in range(0, 60, 6):
            await asyncio.gather(*(give_up(n) for n in range(start_at, start_at + 6)))
        stored = (await store.list_jobs(JobFilter(), visible_to=None)).total
        assert (await store.get_outbox_depth())[0] == stored
        assert len(await store.list_events_after(0)) == stored
        assert stored > 0
        await store.create_job(make_job())
        with pytest.raises(NotFound):
            await store.get_job(make_job().id)
