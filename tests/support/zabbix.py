"""A real Zabbix 6.0: its database, server and web interface, without systemd."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.support import postgres
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking

_SERVER = Path("/usr/sbin/zabbix_server")
_SCHEMA = Path("/usr/share/zabbix-server-pgsql")
_INTERFACE = Path("/usr/share/zabbix")
_CONFIG = "/etc/zabbix/zabbix.conf.php"
"""The path at which Debian's web interface reads its configuration."""
PACKAGES = "zabbix-server-pgsql zabbix-frontend-php php-pgsql php-cli"


class Zabbix:
    """The API of a running Zabbix, as its administrator."""

    def __init__(self, url: str, config: Path) -> None:
        self._url = f"{url}/api_jsonrpc.php"
        self._config = config
        self._numbers = count(1)
        self._session: str | None = None

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """Call a method of the API; its result. An error of Zabbix fails the test."""
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": next(self._numbers)}
        if self._session is not None:
            request["auth"] = self._session
        headers = {"Content-Type": "application/json-rpc"}
        answer = httpx.post(
            self._url, content=json.dumps(request), headers=headers, trust_env=False, timeout=60
        ).json()
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def log_in(self) -> None:
        """Begin a session with the initial password."""
        self._session = self.call("user.login", {"username": "Admin", "password": "zabbix"})

    def import_template(self, path: Path) -> str:
        """Import a template, twice as an update is done; its ID."""
        both = {"createMissing": True, "updateExisting": True}
        kinds = ("templates", "items", "triggers", "discoveryRules")
        rules = {**dict.fromkeys(kinds, both), "groups": {"createMissing": True}}
        source = {"format": "yaml", "source": path.read_text("utf-8"), "rules": rules}
        for _ in range(2):
            assert self.call("configuration.import", source)
        (template,) = self.call("template.get", {"filter": {"host": "Aitne by HTTP"}})
        return str(template["templateid"])

    def reload(self) -> None:
        """Let the server read new hosts at once."""
        argv = [_SERVER, "-c", self._config, "-R", "config_cache_reload"]
        subprocess.run(argv, check=True, capture_output=True)


def zabbix_or_skip() -> None:
    """Skip where Zabbix' packages are missing, unless they are required."""
    if not _SERVER.exists() or not _INTERFACE.is_dir() or shutil.which("php") is None:
        lacking("zabbix", f"no Zabbix: apt-get install --no-install-recommends {PACKAGES}")


@contextmanager
def zabbix(folder: Path) -> Iterator[Zabbix]:
    """Start a Zabbix with an empty configuration in ``folder``, and end it afterwards."""
    zabbix_or_skip()
    with postgres.serve() as database:
        name = database.create_database()
        _fill(database, name)
        port = reserve_ports(2)
        config = folder / "zabbix_server.conf"
        config.write_text(_settings(folder, database.port, name, port))
        interface = _interface(folder, database.port, name, port)
        php = ["php", "-d", "post_max_size=16M", "-d", "memory_limit=256M"]
        address = f"127.0.0.1:{port + 1}"
        with (folder / "php.log").open("wb") as log:
            processes = [
                subprocess.Popen([_SERVER, "-c", config, "-f"], stdout=log, stderr=log),
                subprocess.Popen([*php, "-S", address, "-t", interface], stdout=log, stderr=log),
            ]
            try:
                found = Zabbix(f"http://{address}", config)
                _until_it_answers(found, processes)
                found.log_in()
                yield found
            finally:
                for process in processes:
                    process.terminate()
                for process in processes:
                    process.wait(60)


def _fill(database: postgres.PostgresServer, name: str) -> None:
    psql = [database.programs / "psql", "-h", "127.0.0.1", "-p", str(database.port)]
    what = ["-U", "aitne", "-d", name, "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    for part in ("schema", "images", "data"):
        sql = gzip.decompress((_SCHEMA / f"{part}.sql.gz").read_bytes())
        subprocess.run([*psql, *what], input=sql, check=True, capture_output=True)


def _settings(folder: Path, database_port: int, name: str, port: int) -> str:
    settings = {
        "AllowRoot": "1",
        "DBHost": "127.0.0.1",
        "DBPort": database_port,
        "DBName": name,
        "DBUser": "aitne",
        "ListenIP": "127.0.0.1",
        "ListenPort": port,
        "LogFile": folder / "zabbix_server.log",
        "PidFile": folder / "zabbix_server.pid",
        "SocketDir": folder,
        "StartPollers": "2",
        "StartPreprocessors": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _interface(folder: Path, database_port: int, name: str, port: int) -> Path:
    """Copy the web interface; the copy reads its configuration from ``folder``."""
    copy = folder / "interface"
    shutil.copytree(_INTERFACE, copy, symlinks=True)
    loader = copy / "include" / "classes" / "core" / "CConfigFile.php"
    text = loader.read_text()
    assert _CONFIG in text
    config = folder / "zabbix.conf.php"
    loader.write_text(text.replace(_CONFIG, str(config)))
    values = {
        "TYPE": "POSTGRESQL",
        "SERVER": "127.0.0.1",
        "PORT": str(database_port),
        "DATABASE": name,
        "USER": "aitne",
        "PASSWORD": "",
        "SCHEMA": "",
    }
    lines = [f"$DB['{key}'] = '{value}';" for key, value in values.items()]
    lines += ["$ZBX_SERVER = '127.0.0.1';", f"$ZBX_SERVER_PORT = '{port}';"]
    config.write_text("\n".join(["<?php", *lines, "$IMAGE_FORMAT_DEFAULT = IMAGE_FORMAT_PNG;", ""]))
    return copy


def _until_it_answers(found: Zabbix, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert all(process.poll() is None for process in processes), "Zabbix ended"
        try:
            found.call("apiinfo.version", {})
        except (httpx.TransportError, ValueError):
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("Zabbix did not start in time.")
