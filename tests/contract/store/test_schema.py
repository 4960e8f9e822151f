from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from aitne.core.errors import SetupError
from aitne.core.models.job import JobFilter
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.store import Store, tables
from aitne.store.migrate import SCRIPTS, read_revision
from aitne.store.migrations import HEAD
from tests.support.jobs import CREATED_AT, make_job

START = """
import asyncio, sys
from aitne.store import Store
from tests.support.jobs import make_job

async def main(url):
    store = Store(url)
    await store.start()
    await store.create_job(make_job())
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


# On SQLite the test below compares this index.
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based")
async def test_the_migrated_schema_is_that_of_the_tables(empty_url: str) -> None:
    store = Store(empty_url)
    await store.start()

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, tables.metadata))

    async with store._db.raw_read() as connection:
        assert await connection.run_sync(differences) == []
        assert await connection.run_sync(read_revision) == HEAD
    await store.close()


async def test_the_migrated_sqlite_file_says_word_for_word_what_the_tables_say(
    tmp_path: Path,
) -> None:
    """Options such as AUTOINCREMENT and WITHOUT ROWID, which the comparison above does not see."""

    def words(path: Path) -> dict[str, list[str]]:
        """Return the sorted words of each table's SQL, as the order of constraints has no meaning."""
        query = "SELECT name, sql FROM sqlite_master WHERE name != 'alembic_version'"
        with closing(connect(path)) as connection:
            return {
                name: sorted(re.findall(r"[^\s(),]+", sql or ""))
                for name, sql in connection.execute(query)
                if not name.startswith("sqlite_")
            }

    store = Store(f"sqlite:///{tmp_path / 'migrated.db'}")
    await store.start()
    await store.close()
    engine = create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    tables.metadata.create_all(engine)
    engine.dispose()
    assert words(tmp_path / "migrated.db") == words(tmp_path / "made.db")
    assert "AUTOINCREMENT" in words(tmp_path / "made.db")["events"]


def test_head_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


async def test_a_second_start_changes_nothing(store: Store, url: str) -> None:
    job = (await store.create_job(make_job())).job
    again = Store(url)
    await again.start()
    assert await again.get_job(job.id) == job
    await again.close()


async def test_processes_that_start_at_once_on_an_empty_database(empty_url: str) -> None:
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-c", START, empty_url, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    ends = await asyncio.gather(*(child.communicate() for child in children))
    assert [child.returncode for child in children] == [0] * 3, ends
    store = Store(empty_url)
    await store.start()
    assert len(await store.list_live_jobs()) == 3
    await store.close()


async def test_stores_of_one_process_that_start_at_once(empty_url: str) -> None:
    stores = [Store(empty_url) for _ in range(4)]
    await asyncio.gather(*(store.start() for store in stores))
    for store in stores:
        await store.ping()
        await store.close()


async def test_a_database_of_a_newer_release_is_left_alone(store: Store, url: str) -> None:
    async with store._db.raw_write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    later = Store(url)
    with pytest.raises(SetupError, match="newer release") as caught:
        await later.start()
    await later.close()
    assert "9999" in caught.value.message


async def test_a_database_of_another_program_is_left_alone(empty_url: str) -> None:
    strange = Store(empty_url)
    await strange._db.prepare()
    async with strange._db.raw_write() as connection:
        await connection.execute(text("CREATE TABLE wp_posts (id INTEGER)"))
    with pytest.raises(SetupError, match="wp_posts"):
        await strange.start()
    async with strange._db.raw_read() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert names == ["wp_posts"]
    await strange.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command

    upgrade = command.upgrade

    def fail(config: Config, to: str) -> None:
        upgrade(config, to)
        raise RuntimeError("the power went")

    monkeypatch.setattr(command, "upgrade", fail)
    store = Store(empty_url)
    with pytest.raises(RuntimeError):
        await store.start()
    async with store._db.raw_read() as connection:
        names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert names == []
    monkeypatch.undo()
    await store.start()
    await store.ping()
    await store.close()


async def test_going_back_to_an_older_release_loses_nothing_that_it_knew(empty_url: str) -> None:
    """Records that the older release knows survive a downgrade and the next upgrade."""
    store = Store(empty_url)
    await store.start()
    ada = User(name="ada", display_name="Ada", default_project="vision", created_at=CREATED_AT)
    await store.create_user(ada, None, Project(name="vision", created_at=CREATED_AT))
    job = (await store.create_job(make_job(spec={"template": "train", "image": "torch:2"}))).job
    for to in ("0006", HEAD):
        async with store._db.raw_write() as connection:
            await connection.run_sync(_move, to)
    assert await store.get_user("ada") == ada
    assert (await store.get_project("vision")).members == ("ada",)
    assert await store.get_job(job.id) == job
    found = await store.list_jobs(JobFilter(template="train", image="torch"), visible_to=None)
    assert [each.id for each in found.items] == [job.id]
    await store.close()


def _move(connection: Connection, to: str) -> None:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(SCRIPTS))
    (command.upgrade if to == HEAD else command.downgrade)(config, to)
