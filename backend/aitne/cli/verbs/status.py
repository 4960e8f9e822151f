"""``aitne status``: the platform and its processes."""

from __future__ import annotations

import os

from aitne.cli import output
from aitne.client import discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOPPED = 1


def status(*, url: str | None = None, data_dir: str | None = None, as_json: bool = False) -> int:
    """Show the platform's state and return the exit status, 0 while it runs."""
    if url and data_dir:
        discovery.find_platform(url=url, data_dir=data_dir)  # says that these are two
    remote = url or (
        None if data_dir or os.environ.get("AITNE_DATA_DIR") else os.environ.get("AITNE_URL")
    )
    if remote and data_dir is None:
        return _remote(remote, as_json=as_json)
    where = platform_dir(data_dir)
    found = discovery.ask_supervisor(where, "status")
    if as_json:
        output.answer_json(found or {"state": "stopped", "url": None, "processes": []})
    elif found is not None:
        _show(found)
    if found is None:
        output.say(f"aitne: {discovery.not_running(where)}")
        return STOPPED
    return 0


def platform_dir(data_dir: str | None) -> str:
    """Return the data directory: the argument, ``AITNE_DATA_DIR``, the last `up`, or the
    default."""
    given = data_dir or os.environ.get("AITNE_DATA_DIR") or discovery.started_last()
    if not given:
        base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        given = os.path.join(base, "aitne")
    return os.path.abspath(os.path.expanduser(given))


def _remote(url: str, *, as_json: bool) -> int:
    from aitne.client import Client

    client = Client(url=url)
    client.ready()
    found = {"state": "ready", "url": client.platform.url, "processes": []}
    if as_json:
        output.answer_json(found)
    else:
        _show(found)
    return 0


def _show(found: dict[str, Any]) -> None:
    output.facts(
        [("State", found["state"]), ("Address", found["url"]), ("Data", found.get("data_dir"))]
    )
    if found["processes"]:
        output.answer("")
        output.table(
            ("PROCESS", "PID", "PORT", "MEMORY", "RESTARTS"),
            [
                (
                    process["name"],
                    process["pid"],
                    process.get("port") or "",
                    output.memory(process.get("memory_bytes")),
                    process.get("restarts", ""),
                )
                for process in found["processes"]
            ],
        )
