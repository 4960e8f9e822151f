"""A flood of one route by one user: ``python -m benchmarks.fairness_flood ROUTE PORT``."""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping

from benchmarks.processes import Http

CONNECTIONS = 16
_JOB = {"name": "flood", "commands": ["echo flood"], "resources": {"memory": "16M"}}


class Flood:
    """Requests of one connection."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http = Http(port, self._headers)
        self._job = ""

    def prepare(self) -> None:
        """Submit a job to ask about."""
        status, answer = self._post("/api/v1/jobs", _JOB)
        if status == 201:
            self._job = str(json.loads(answer)["id"])
        else:
            status, answer = self._http.get("/api/v1/jobs?limit=1")
            self._job = str(json.loads(answer)["items"][0]["id"])

    def submit(self) -> None:
        """Submit a job with one request."""
        self._post("/api/v1/jobs", _JOB)

    def cancel(self) -> None:
        """Cancel a job, again and again."""
        self._post(f"/api/v1/jobs/{self._job}/cancel", {})

    def arrays(self) -> None:
        """Submit an array of 1,000 tasks."""
        self._post("/api/v1/jobs", _JOB | {"array": "0-999"})

    def dependencies(self) -> None:
        """Submit a job that waits for another one."""
        self._post("/api/v1/jobs", _JOB | {"after": [self._job]})

    def jobs(self) -> None:
        """List as many jobs as a page may have."""
        self._http.get("/api/v1/jobs?limit=500")

    def logs(self) -> None:
        """Read a job's log."""
        self._http.get(f"/api/v1/jobs/{self._job}/logs")

    def files(self) -> None:
        """Read the job file of a job."""
        self._http.get(f"/api/v1/jobs/{self._job}/file")

    def events(self) -> None:
        """Open an event stream and leave it."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        connection.request("GET", "/api/v1/events", None, self._headers)
        connection.getresponse().read(1)
        connection.close()

    def login(self) -> None:
        """Attempt a login with a wrong password."""
        self._post("/api/v1/auth/login", {"username": "user1", "password": "not this one"})

    def _post(self, path: str, body: Mapping[str, object]) -> tuple[int, bytes]:
        return self._http.request("POST", path, json.dumps(body).encode())


FLOODS: Mapping[str, Callable[[Flood], None]] = {
    "submit": Flood.submit,
    "cancel": Flood.cancel,
    "arrays": Flood.arrays,
    "dependencies": Flood.dependencies,
    "jobs": Flood.jobs,
    "logs": Flood.logs,
    "files": Flood.files,
    "events": Flood.events,
    "login": Flood.login,
}


def main(route: str, port: int, token: str) -> None:
    """Send requests on many connections until the process is ended."""

    def work() -> None:
        flood = Flood(port, token)
        flood.prepare()
        while True:
            FLOODS[route](flood)

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), os.environ["FLOOD_TOKEN"])
