"""The same platform on PostgreSQL: one line of ``aitne.toml``, nothing else."""

from __future__ import annotations

import json

import pytest

from tests.support import realtime
from tests.support.platform import RunningPlatform, environments_or_skip
from tests.support.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]

pytestmark = [
    pytest.mark.platform,
    pytest.mark.postgres,
    pytest.mark.timeout(300),
    realtime.PLATFORM,
]


def test_a_session_and_a_job_on_postgresql(
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    environments_or_skip()
    database = postgres_server.create_database()
    platform = RunningPlatform(
        tmp_path_factory.mktemp("postgres"), f'database = "{postgres_server.url(database)}"\n'
    )
    where = ["--data-dir", str(platform.data_dir)]
    job = platform.home / "job.yml"
    job.write_text("type: job\ncommands: [echo on $AITNE_PROJECT]\nresources: {memory: 256M}\n")
    try:
        platform.start()
        assert not (platform.data_dir / "aitne.db").exists()
        started = platform.aitne(
            "session", "start", "jupyterlab", "--yes", "--wait", "--json", *where
        )
        assert json.loads(started.stdout)["state"] == "READY", started.stderr
        done = platform.aitne("apply", "-f", str(job), "--yes", "--wait", *where)
        assert (done.returncode, done.stdout) == (
            0,
            f"on {json.loads(started.stdout)['project']}\n",
        ), done.stderr
    finally:
        platform.stop()
        postgres_server.drop_database(database)
