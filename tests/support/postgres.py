"""A real PostgreSQL for the tests: one server per pytest process, one fresh database per test."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from aitne.store import Store
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking

_START_S = 30.0


class NoPostgres(Exception):
    """PostgreSQL cannot be had on this machine; the text says why."""


@dataclass
class PostgresServer:
    """A running server. It listens on a UNIX socket in ``home`` and on loopback."""

    programs: Path
    home: Path
    port: int
    user: str | None
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str) -> str:
        """Return the URL of a database for the setting ``database``."""
        return f"postgresql://aitne@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str) -> str:
        """Return the URL of a database over the Unix socket, in the form of libpq."""
        return f"postgresql:///{database}?host={self.home}&port={self.port}&user=aitne"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the superuser. Synchronous: a fixture of any kind may call it."""
        psql = [str(self.programs / "psql"), "-h", "127.0.0.1", "-p", str(self.port)]
        what = ["-U", "aitne", "-d", database, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement]
        subprocess.run([*psql, *what], check=True, capture_output=True, timeout=60)

    def create_database(self, template: str = "template0") -> str:
        """Make an empty database (or a copy of ``template``) and return its name."""
        name = f"aitne_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        """Delete a database and end its connections."""
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def start(self) -> None:
        """Start the server, again after a ``stop``. Raises ``NoPostgres``."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.home),
            # Nothing here has to survive a loss of power.
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "shared_buffers": "32MB",
            "max_connections": "60",
            "autovacuum": "off",
        }
        settings = [part for item in options.items() for part in ("-c", "=".join(item))]
        with (self.home / "server.log").open("ab") as server_log:
            self._process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.home / "data", *settings],
                stdin=subprocess.DEVNULL,
                stdout=server_log,
                stderr=server_log,
                cwd=self.home,
                env=_environment(),
                **_as(self.user),
            )
        self._wait_until_it_answers(self._process)

    def stop(self) -> None:
        """End the server and its connections (PostgreSQL's fast shutdown)."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # its "fast shutdown"
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        status = self.home / "data" / "postmaster.pid"
        deadline = time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < deadline:
            # The last line of this file says what the server is doing.
            if status.exists() and status.read_text().rstrip().endswith("ready"):
                return
            time.sleep(0.02)
        self.stop()
        tail = (self.home / "server.log").read_text(errors="replace").splitlines()[-3:]
        raise NoPostgres(f"the server did not start: {' / '.join(tail)}")


def find_programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`, which Debian keeps out of PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def _install() -> None:
    """Install Debian's package, once, however many pytest processes want it."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoPostgres(
            "PostgreSQL is not installed, and only root can do that: apt-get install postgresql"
        )
    with Path(tempfile.gettempdir(), "aitne-tests-install-postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_programs() is not None:
            return
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (
            ["apt-get", "update", "-q"],
            ["apt-get", "install", "-q", "-y", "--no-install-recommends", "postgresql"],
        ):
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode != 0:
                last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
                raise NoPostgres(f"{' '.join(command)} failed: {' '.join(last)}")


@cache
def _programs() -> Path:
    if find_programs() is None:
        _install()
    found = find_programs()
    if found is None:
        raise NoPostgres("the package postgresql was installed, but its programs are not there")
    return found


def _unprivileged() -> str | None:
    """Return the account for the server; None unless this is root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise NoPostgres("there is no unprivileged user to run PostgreSQL as")


@contextmanager
def serve() -> Iterator[PostgresServer]:
    """Start a server with an empty cluster and end it afterwards.

    Raises:
        NoPostgres: it cannot be had.
    """
    programs = _programs()
    user = _unprivileged()
    # Not pytest's folder: that one is closed to other users, and its long path does not fit a socket.
    with tempfile.TemporaryDirectory(prefix="aitne-pg-") as folder:
        home = Path(folder)
        if user is not None:
            os.chown(home, pwd.getpwnam(user).pw_uid, -1)
        initdb = [str(programs / "initdb"), "-D", str(home / "data"), "-U", "aitne", "-A", "trust"]
        made = subprocess.run(
            [*initdb, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"],
            capture_output=True,
            text=True,
            check=False,
            cwd=home,
            env=_environment(),
            **_as(user),
        )
        if made.returncode != 0:
            raise NoPostgres(f"initdb failed: {made.stderr.strip()}")
        server = PostgresServer(programs, home, reserve_ports(), user)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def _as(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this pytest process; skips the test if there cannot be one."""
    try:
        with serve() as server:
            yield server
    except NoPostgres as error:
        lacking("postgres", f"needs PostgreSQL: {error}")


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """The name of a database that has been migrated, to be copied."""
    name = postgres_server.create_database()

    async def migrate() -> None:
        store = Store(postgres_server.url(name))
        await store.start()
        await store.close()

    # In a thread of its own: pytest-asyncio's loop of this one is none of its business.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrate()).result()
    return name


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """The address of a migrated database of this test's own."""
    name = postgres_server.create_database(postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)
