"""Errors of PostgreSQL servers and their messages, which name a remedy."""

from __future__ import annotations

import asyncpg
import pytest
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection

from aitne.core.errors import InvalidInput, SetupError, StoreUnavailable
from aitne.core.jobs.states import JobState
from aitne.store import Store
from aitne.store.postgres_probe import probe_postgres
from tests.support.jobs import make_job
from tests.support.postgres import PostgresServer


@pytest.mark.postgres
class TestPostgresServer:
    async def test_missing_postgres_server_is_reported_as_unavailable(self) -> None:
        store = Store("postgresql://ada:geheim@127.0.0.1:1/name")
        with pytest.raises(StoreUnavailable, match="does not answer") as caught:
            await store.start()
        assert "geheim" not in caught.value.message
        with pytest.raises(StoreUnavailable):
            await store.ping()
        assert not await store.wait_for_change(0.2)
        await store.close()

    async def test_probe_names_what_the_platform_could_not_do(
        self, postgres_server: PostgresServer, postgres_database: str
    ) -> None:
        postgres_server.run("DROP ROLE IF EXISTS reader")
        postgres_server.run("CREATE ROLE reader LOGIN")
        assert await probe_postgres(postgres_database)
        for url, sentence in (
            (postgres_server.url("nothing"), "createdb"),
            (postgres_database.replace("aitne@", "reader@"), "OWNER TO"),
            (postgres_database.replace("aitne@", "nobody:geheim@"), "refused the login"),
            ("sqlite:////tmp/aitne.db", "no URL of PostgreSQL"),
        ):
            with pytest.raises(SetupError, match=sentence) as refused:
                await probe_postgres(url)
            assert "geheim" not in refused.value.message
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await probe_postgres("postgresql://ada:geheim@127.0.0.1:1/name")

    async def test_no_such_database(self, postgres_server: PostgresServer) -> None:
        store = Store(postgres_server.url("nothing"))
        with pytest.raises(SetupError, match="createdb"):
            await store.start()
        await store.close()

    async def test_a_user_without_rights(
        self, postgres_server: PostgresServer, postgres_database: str
    ) -> None:
        postgres_server.run("DROP ROLE IF EXISTS eve")
        postgres_server.run("CREATE ROLE eve LOGIN")
        store = Store(postgres_database.replace("aitne@", "eve@"))
        with pytest.raises(SetupError, match="OWNER TO"):
            await store.start()
        await store.close()

    async def test_an_unknown_user(self, postgres_database: str) -> None:
        store = Store(postgres_database.replace("aitne@", "nobody:geheim@"))
        with pytest.raises(SetupError, match="refused the login") as caught:
            await store.start()
        assert "geheim" not in caught.value.message
        await store.close()

    async def test_a_read_only_one(
        self, postgres_server: PostgresServer, postgres_database: str
    ) -> None:
        name = postgres_database.rpartition("/")[2]
        postgres_server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        store = Store(postgres_database)
        with pytest.raises(SetupError, match="read-only"):
            await store.start()
        await store.close()

    async def test_store_works_again_after_postgres_restart(
        self, postgres_server: PostgresServer, postgres_url: str
    ) -> None:
        store = Store(postgres_url)
        await store.start()
        postgres_server.stop()
        with pytest.raises(StoreUnavailable):
            await store.create_job(make_job())
        with pytest.raises(StoreUnavailable):
            await store.get_job(make_job().id)
        postgres_server.start()
        await store.create_job(make_job())
        await store.close()

    async def test_a_transaction_that_hangs_is_ended_by_the_server(self, postgres_url: str) -> None:
        store = Store(postgres_url)
        await store.start()
        async with store._db.read() as connection:
            found = [
                (await connection.exec_driver_sql(f"SHOW {name}")).scalar()
                for name in ("idle_in_transaction_session_timeout", "lock_timeout")
            ]
        assert found == ["30s", "15s"]
        await store.close()

    async def test_a_row_that_stays_locked(self, postgres_url: str) -> None:
        store = Store(postgres_url)
        await store.start()
        job = (await store.create_job(make_job())).job
        hung = await asyncpg.connect(postgres_url)
        await hung.execute("BEGIN")
        await hung.execute("SELECT * FROM jobs FOR UPDATE")

        @event.listens_for(store._db._engine.sync_engine, "checkout")
        def _hurry(connection: DBAPIConnection, *_: object) -> None:
            connection.cursor().execute("SET lock_timeout = '50ms'")

        with pytest.raises(StoreUnavailable, match="pg_stat_activity"):
            await store.transition_job(job.id, JobState.SUBMITTING)
        await hung.close()
        await store.close()

    async def test_a_text_it_cannot_store(self, postgres_url: str) -> None:
        store = Store(postgres_url)
        await store.start()
        with pytest.raises(InvalidInput, match="NUL"):
            await store.create_job(make_job(name="a\0b"))
        await store.close()
