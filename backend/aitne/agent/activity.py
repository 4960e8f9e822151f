"""Detection of the last activity in a session.

The following counts as activity: a busy or recently used kernel, terminal output, saving an open
document, and use of CPUs or GPUs. A page that is only open does not count.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone

from aitne.agent import http_client
from aitne.agent.sampler import Sampler

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    import ssl
    from typing import Any

BUSY_CPUS = 0.25
"""Number of CPUs in use from which a session counts as active; an idle server with an open page
uses 1 % of this."""
BUSY_GPU = 0.03
LOOKS = 20
"""Number of checks for activity within the inactivity limit of the session."""
SHORTEST_S, LONGEST_S = 1.0, 30.0
_ANSWER_S = 10.0
_BUSY = ("busy", "starting", "restarting", "autorestarting")
_MOST_DOCUMENTS = 200


class Jupyter:
    """Client that determines how long the session's Jupyter server has been idle."""

    def __init__(
        self, base: str, token: str, root: str, context: ssl.SSLContext | None = None
    ) -> None:
        """Create a client.

        Args:
            base: URL of the server without a trailing slash.
            token: token of the server.
            root: folder to which the server's relative paths refer.
            context: TLS context for https; None: the default of ``http_client.request``.
        """
        self._context = context
        self._base = base
        self._token = token
        self._root = root
        self._saved: dict[str, float] = {}

    def idle_s(self) -> float | None:
        """Return the number of seconds since the last activity on the Jupyter server; 0 if a kernel
        is busy. Return None if the server does not answer, or there was no activity yet."""
        times_s = [
            _compute_seconds_since(entry.get("last_activity"))
            for path in ("/api/kernels", "/api/terminals")
            for entry in self._list_folder(path)
        ]
        if any(k.get("execution_state") in _BUSY for k in self._list_folder("/api/kernels")):
            return 0.0
        if self._has_saved_document():
            return 0.0
        return min((time_s for time_s in times_s if time_s is not None), default=None)

    def _has_saved_document(self) -> bool:
        """Return whether the file of an open document has changed since the last call.

        Modification times are compared only with each other, because the clock of a file server
        may differ from that of the node.
        """
        newest = {}
        for path in self._open_documents()[:_MOST_DOCUMENTS]:
            try:
                newest[path] = os.stat(os.path.join(self._root, path)).st_mtime
            except (OSError, ValueError):
                continue
        before, self._saved = self._saved, newest
        return any(path in before and before[path] != at for path, at in newest.items())

    def _open_documents(self) -> list[str]:
        """Return the paths of the documents that are open in JupyterLab, according to the page
        layouts (workspaces) stored on the server."""
        answer = self._get_json("/lab/api/workspaces")
        spaces = answer.get("workspaces") if isinstance(answer, dict) else None
        values = spaces.get("values") if isinstance(spaces, dict) else None
        paths = []
        for space in values if isinstance(values, list) else ():
            data = space.get("data") if isinstance(space, dict) else None
            for widget in data.values() if isinstance(data, dict) else ():
                shown = widget.get("data") if isinstance(widget, dict) else None
                # A document names its file and its factory; a file browser only a folder.
                if isinstance(shown, dict) and shown.get("factory") and shown.get("path"):
                    paths.append(str(shown["path"]).rpartition(":")[2].lstrip("/"))
        return paths

    def _list_folder(self, path: str) -> list[dict[str, Any]]:
        answer = self._get_json(path)
        items = answer if isinstance(answer, list) else []
        return [item for item in items if isinstance(item, dict)]

    def _get_json(self, path: str) -> Any:
        try:
            status, body = http_client.request(
                "GET",
                f"{self._base}{path}?no_track_activity=1",
                token=self._token,
                timeout_s=_ANSWER_S,
                context=self._context,
            )
            return json.loads(body) if status == 200 else None
        except (OSError, http_client.InvalidResponseError, ValueError, RecursionError):
            return None


class ActivityWatch:
    """Thread that checks at intervals whether the session is active, and reports the time of the
    last activity."""

    def __init__(
        self,
        meter: Sampler,
        say: Callable[[float], None],
        lasts_s: float,
        jupyter: Jupyter | None,
    ) -> None:
        """Initialize the watch.

        Args:
            meter: sampler of the use of CPUs and GPUs.
            say: called with the time of the last activity, in seconds of the monotonic clock.
            lasts_s: seconds without activity after which the session is ended; it determines the
                interval of the checks.
            jupyter: client of the session's Jupyter server; None: the session has no such server.
        """
        self._meter = meter
        self._say = say
        self._jupyter = jupyter
        self._every_s = min(LONGEST_S, max(SHORTEST_S, lasts_s / LOOKS))
        self.active_at = time.monotonic()

    def start(self) -> None:
        """Start the thread that checks for activity."""
        threading.Thread(target=self._run, name="activity", daemon=True).start()

    def _run(self) -> None:
        self._meter.open_gpus()
        self._meter.measure()
        while True:
            self._say(self.active_at)
            time.sleep(self._every_s)
            self.check_activity()

    def check_activity(self) -> None:
        """Check once for activity, and set ``active_at`` if there is any."""
        now = time.monotonic()
        try:
            sample = self._meter.measure()
        except (OSError, ValueError, IndexError):
            sample = {"cpu": 0.0, "gpu": []}  # a process ended meanwhile: the next check counts
        busy = sample["cpu"] >= BUSY_CPUS or any(
            gpu["utilization"] >= BUSY_GPU for gpu in sample["gpu"]
        )
        if busy:
            self.active_at = now
        elif self._jupyter is not None:
            idle_s = self._jupyter.idle_s()
            if idle_s is not None:
                self.active_at = max(self.active_at, now - idle_s)


def _compute_seconds_since(text: Any) -> float | None:
    """Return the number of seconds since a Jupyter timestamp, according to this node's clock; 0 if
    the timestamp is in the future, None if ``text`` is not a timestamp with a time zone."""
    try:
        then = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    if then.tzinfo is None:
        return None
    now = datetime.now(timezone.utc)  # noqa: UP017 (nodes may have 3.9)
    return max(0.0, (now - then).total_seconds())
