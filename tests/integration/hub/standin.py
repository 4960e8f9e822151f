"""A portal just large enough for JupyterHub: its OAuth2 provider and its internal interface."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID, uuid4

from aitne.core.sessions.entry_points import server_name
from tests.support.ports import reserve_ports


@dataclass
class StandInJob:
    """A job whose agent has started the launcher."""

    id: UUID
    owner: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    live: bool = True
    handovers: int = 0
    env: dict[str, str] | None = None

    @property
    def server(self) -> str:
        return server_name(self.id)

    def take(self, handover: dict[str, Any]) -> None:
        """Take a handover as the agent does: the first goes to the launcher, later ones are dropped."""
        self.handovers += 1
        if self.env is None and self.process is not None and self.process.stdin is not None:
            self.process.stdin.write(json.dumps(handover).encode() + b"\n")
            self.process.stdin.close()
        self.env = handover["env"]


class StandInPortal:
    """Listens on ``port``; ``logged_in`` is who every browser is, None: not logged in, and
    ``sign_in`` the ID of its login."""

    def __init__(self, port: int, sessions_url: str, secrets_dir: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.callback = f"{sessions_url}/hub/oauth_callback"
        self.client_secret = (secrets_dir / "oauth_client_secret").read_text().strip()
        self.service_secret = (secrets_dir / "hub_service_secret").read_text().strip()
        self.logged_in: str | None = "ada"
        self.sign_in = "sign-in"
        self.jobs: dict[UUID, StandInJob] = {}
        self.codes: dict[str, tuple[str, str, str]] = {}
        self.access: dict[str, dict[str, str]] = {}
        self.silent = False
        self.asked_live = 0
        portal = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                portal.answer(self, b"")

            def do_POST(self) -> None:
                portal.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

            def do_PUT(self) -> None:
                self.do_POST()

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> StandInPortal:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for job in self.jobs.values():
            if job.process is not None:
                job.process.kill()
                job.process.wait()
                if job.process.stdin is not None:
                    job.process.stdin.close()

    def job(self, owner: str, launcher: list[str] | None, folder: Path) -> StandInJob:
        """Start a job, with a launcher if one is given."""
        job = StandInJob(uuid4(), owner, reserve_ports())
        folder.mkdir(parents=True, exist_ok=True)
        if launcher is not None:
            with (folder / "server.log").open("wb") as log:
                job.process = subprocess.Popen(
                    launcher,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
                )
        self.jobs[job.id] = job
        return job

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if self.silent:
            return self._send(request, 503, {})
        if url.path == "/api/oauth/authorize":
            return self._authorize(request, query)
        if url.path == "/api/oauth/token":
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            return self._token(request, form)
        if url.path == "/api/oauth/userinfo":
            user = self.access.pop(request.headers["Authorization"].removeprefix("Bearer "), None)
            return self._send(request, 200 if user else 401, user or {})
        if url.path.startswith("/internal/hub/v1/"):
            return self._internal(request, url.path.split("/")[4:], body)
        return self._send(request, 200, {"portal": True})

    def _authorize(self, request: BaseHTTPRequestHandler, query: dict[str, str]) -> None:
        right = query["redirect_uri"] == self.callback and query["client_id"] == "jupyterhub"
        if not right or query.get("code_challenge_method") != "S256":
            return self._send(request, 400, {})
        if self.logged_in is None:
            return self._send(request, 200, {"login-page": True})
        code = secrets.token_urlsafe()
        self.codes[code] = (self.logged_in, self.sign_in, query["code_challenge"])
        request.send_response(302)
        answer = urlencode({"code": code, "state": query["state"]})
        request.send_header("Location", f"{self.callback}?{answer}")
        request.end_headers()
        return None

    def _token(self, request: BaseHTTPRequestHandler, form: dict[str, str]) -> None:
        user, sign_in, challenge = self.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        basic = request.headers.get("Authorization", "").removeprefix("Basic ")
        given = base64.b64decode(basic).decode() if basic else form.get("client_secret", "")
        proven = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        if not proven or self.client_secret not in given:
            return self._send(request, 400, {"error": "invalid_grant"})
        token = secrets.token_urlsafe()
        self.access[token] = {"preferred_username": user, "sid": sign_in}
        return self._send(request, 200, {"access_token": token, "token_type": "Bearer"})

    def _internal(self, request: BaseHTTPRequestHandler, parts: list[str], body: bytes) -> None:
        if request.headers.get("Authorization") != f"Bearer {self.service_secret}":
            return self._send(request, 401, {})
        if parts == ["live"]:
            self.asked_live += 1
            live = [str(job.id) for job in self.jobs.values() if job.live]
            return self._send(request, 200, {"job_ids": live})
        job = self.jobs.get(UUID(parts[1]))
        if job is None:
            return self._send(request, 404, {})
        if request.command == "PUT":
            job.take(json.loads(body))
            return self._send(request, 204, None)
        about = {"job_id": str(job.id), "owner": job.owner, "live": job.live}
        return self._send(request, 200, {**about, "address": f"127.0.0.1:{job.port}"})

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
