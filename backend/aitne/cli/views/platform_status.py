"""``aitne status``: the platform and its processes."""

from __future__ import annotations

import os

from aitne.cli import output
from aitne.client import platform_discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOPPED = 1


def status(*, url: str | None = None, data_dir: str | None = None, as_json: bool = False) -> int:
    """Print the state of the platform and its processes; return the exit status, 0 while it
    runs."""
    if url and data_dir:
        platform_discovery.find_platform(
            url=url, data_dir=data_dir
        )  # raises: the options exclude each other
    remote = url or (
        None if data_dir or os.environ.get("AITNE_DATA_DIR") else os.environ.get("AITNE_URL")
    )
    if remote and data_dir is None:
        return _print_remote_status(remote, as_json=as_json)
    folder = find_platform_dir(data_dir)
    state = platform_discovery.ask_supervisor(folder, "status")
    if as_json:
        output.print_json(state or {"state": "stopped", "url": None, "processes": []})
    elif state is not None:
        _print_status(state)
    if state is None:
        output.print_message(f"aitne: {platform_discovery.describe_not_running(folder)}")
        return STOPPED
    return 0


def find_platform_dir(data_dir: str | None) -> str:
    """Return the data directory of the platform on this machine, from the first source that is set:
    ``data_dir``, the variable ``AITNE_DATA_DIR``, the data directory of the last `aitne up`, or the
    default.
    """
    folder = data_dir or os.environ.get("AITNE_DATA_DIR") or platform_discovery.find_last_data_dir()
    if not folder:
        base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        folder = os.path.join(base, "aitne")
    return os.path.abspath(os.path.expanduser(folder))


def _print_remote_status(url: str, *, as_json: bool) -> int:
    from aitne.client import Client

    client = Client(url=url)
    client.ready()
    state = {"state": "ready", "url": client.platform.url, "processes": []}
    if as_json:
        output.print_json(state)
    else:
        _print_status(state)
    return 0


def _print_status(state: dict[str, Any]) -> None:
    output.print_facts(
        [("State", state["state"]), ("Address", state["url"]), ("Data", state.get("data_dir"))]
    )
    if state["processes"]:
        output.print_line("")
        output.print_table(
            ("PROCESS", "PID", "PORT", "MEMORY", "RESTARTS"),
            [
                (
                    process["name"],
                    process["pid"],
                    process.get("port") or "",
                    output.format_memory(process.get("memory_bytes")),
                    process.get("restarts", ""),
                )
                for process in state["processes"]
            ],
        )
