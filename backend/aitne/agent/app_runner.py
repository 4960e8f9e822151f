"""App of a session: chooses its port, passes on JupyterHub's environment, and waits until it is
ready."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

from aitne.agent import http_client
from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.session_listen_address import Listener, find_listen_address, find_listener_owner
from aitne.agent.spec import App, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # TLS costs as much memory as all the rest of the agent
    import ssl
    from typing import Any

    from aitne.agent.session_ranks import RanksBesideApp

HANDED_OVER = "jupyterhub"
"""Kind of app whose environment comes from JupyterHub, after the app was started."""
_WAIT_S = 25
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_READY_EVERY_S = 0.05
_ANSWER_S = 10.0
_GRACE_S = 10.0
_CA_FILE = "ca.pem"
_TLS_FILES = ("server.pem", "agent.pem", "key.pem")
"""Files for TLS of a session: the certificate of its server followed by the certificate of the CA
that issued it, the agent's certificate, and the private key of both. The program
``aitne_certificate`` uses the same names.
"""


class AppRunner:
    """Runner of one app of a session: chooses its port, starts it, and waits for its end."""

    def __init__(
        self,
        spec: Spec,
        app: App,
        programs: Programs,
        reporter: Reporter,
        on_start: Callable[[], None],
        ranks: RanksBesideApp | None = None,
    ) -> None:
        """Store the dependencies. ``ranks`` are the ranks of the session; None if it has none."""
        self._ranks = ranks
        self._spec = spec
        self._app = app
        self._programs = programs
        self._reporter = reporter
        self._on_start = on_start
        self._ended = threading.Event()
        self._api_token = ""
        self._tls = False
        self._tls_folder = os.path.join(spec.job_dir, "tls")
        """Folder of the TLS key and certificates while the app runs."""
        self.failure: str | None = None
        """Reason why the agent ended the app; None if it did not."""

    def run(self) -> int:
        """Start the app, pass JupyterHub's environment to it if it needs that, and wait until it
        ends. Return its exit code.

        Raises:
            OSError: the app could not be started, there is no free port, or the node has no address
                on which the app is to listen.
        """
        host = find_listen_address(self._spec.listen, self._spec.node, self._spec.platform_url)
        port_socket = _hold_port(host)
        port = port_socket.getsockname()[1]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        handed_over = self._app.kind == HANDED_OVER
        self._tls = handed_over and self._spec.authority is not None
        if not handed_over:
            os.environ["AITNE_APP_HOST"], os.environ["AITNE_APP_PORT"] = host, str(port)
        reader, writer = os.pipe() if handed_over else (None, None)
        # The app can bind the same port from now on if its server sets the option too, as most do.
        port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            argv = self._app.argv if self._ranks is None else self._ranks.argv(self._app.argv)
            pid = self._programs.start(argv, stdin=reader)
        finally:
            if reader is not None:
                os.close(reader)
        self._reporter.queue_phase("started", address=address)
        self._reporter.start()
        self._on_start()
        if self._ranks is not None:
            self._ranks.start()
        threading.Thread(
            target=self._start_app, args=(address, writer, port_socket), name="app", daemon=True
        ).start()
        try:
            return self._programs.wait(pid) if self._ranks is None else self._ranks.wait(pid)
        finally:
            self._ended.set()
            self._remove_key()

    def _start_app(self, address: str, writer: int | None, port_socket: socket.socket) -> None:
        base = f"{'https' if self._tls else 'http'}://{address}"
        try:
            if writer is not None:
                base += self._pass_environment(address, writer)
            if self._ended.is_set():
                return
            owner = self._wait_until_ready(base, *port_socket.getsockname()[:2])
            ready, stolen = owner is not None, owner is Listener.ANOTHERS
        finally:
            port_socket.close()
        if ready and not stolen:
            self._reporter.queue_phase("ready")
            self._start_activity_watch(base)
        elif not self._ended.is_set():
            self.failure = (
                f"another user on this node listens at {address}, the port of {self._app.name}"
                if stolen
                else f"{self._app.name} did not answer at {base}{self._app.readiness_path} within "
                f"{self._app.timeout_s:.0f} s"
            )
            self._programs.send_signal(signal.SIGTERM)
            if not self._ended.wait(_GRACE_S):
                self._programs.send_signal(signal.SIGKILL)

    def _start_activity_watch(self, base: str) -> None:
        if self._spec.inactivity_s is None or not self._spec.platform_url:
            return
        from aitne.agent.activity import ActivityWatch, Jupyter
        from aitne.agent.sampler import Sampler

        launcher = self._programs.launcher
        pids_file = None if launcher is None else launcher.pids_file
        jupyter = None
        if self._api_token:
            context = self._server_context() if self._tls else None
            jupyter = Jupyter(base, self._api_token, os.getcwd(), context)
        meter = Sampler(self._spec, self._reporter, pids_file)
        ActivityWatch(
            meter, self._reporter.queue_activity, self._spec.inactivity_s, jupyter
        ).start()

    # --- the hand-over ---------------------------------------------------------------------------

    def _pass_environment(self, address: str, writer: int) -> str:
        """Wait for the environment from JupyterHub and write it to the app through the descriptor
        ``writer``; return the path of the app's URL."""
        handover = self._fetch_environment()
        if handover is None:
            os.close(writer)
            return ""
        environment = {str(name): str(value) for name, value in handover.get("env", {}).items()}
        prefix = environment.get("JUPYTERHUB_SERVICE_PREFIX", "/")
        self._api_token = environment.get("JUPYTERHUB_API_TOKEN", "")
        scheme = "https" if self._tls else "http"
        environment.setdefault("JUPYTERHUB_SERVICE_URL", f"{scheme}://{address}{prefix}")
        handed: dict[str, Any] = {
            "env": environment,
            "args": list(handover.get("args", ())),
            # In this message only: neither programs of the session nor its page see the token.
            "session": {
                "url": f"{self._spec.platform_url}/agent/v1/jobs/{self._spec.job_id}/session",
                "token": self._spec.token,
                "authority": self._spec.authority,
            },
        }
        if self._tls:
            os.makedirs(self._tls_folder, 0o700, exist_ok=True)
            environment["AITNE_CA_FILE"] = self._write_authority()
            handed["tls"] = {
                "folder": self._tls_folder,
                "url": f"{self._spec.platform_url}/agent/v1/jobs/{self._spec.job_id}/certificate",
                "token": self._spec.token,
                "address": address,
                "authority": self._spec.authority,
            }
        line = json.dumps(handed) + "\n"
        # A closed pipe: the app has ended already, and its exit code is reported.
        with contextlib.suppress(BrokenPipeError), open(writer, "w", encoding="utf-8") as pipe:
            pipe.write(line)
        return prefix.rstrip("/")

    def _fetch_environment(self) -> dict[str, Any] | None:
        """Request the environment that JupyterHub has stored for the app, until it is there or the
        app ends (None). The request is repeated while the platform is unreachable."""
        url = (
            f"{self._spec.platform_url}/agent/v1/jobs/{self._spec.job_id}/handover?wait_s={_WAIT_S}"
        )
        pause = _SHORTEST_PAUSE_S
        while not self._ended.is_set():
            try:
                status, body = http_client.request(
                    "GET", url, token=self._spec.token, timeout_s=_WAIT_S + _ANSWER_S
                )
                if status == 200:
                    handover = json.loads(body)
                    if isinstance(handover, dict):
                        return handover
                elif status == 204:
                    pause = _SHORTEST_PAUSE_S
                    continue
            except (OSError, http_client.InvalidResponseError, ValueError):
                pass
            self._ended.wait(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        return None

    # --- TLS -------------------------------------------------------------------------------------

    def _write_authority(self) -> str:
        """Write the certificate of the platform's CA to a file for programs of the session that use
        the API; return its path."""
        path = os.path.join(self._tls_folder, _CA_FILE)
        with open(path, "w", encoding="ascii") as file:
            file.write(self._spec.authority or "")
        return path

    def _server_context(self) -> ssl.SSLContext:
        """Return a TLS context for requests to the session's own server. Raises ``OSError`` if
        there is no key yet."""
        server, certificate, key = (os.path.join(self._tls_folder, name) for name in _TLS_FILES)
        with open(server, encoding="ascii") as file:
            return http_client.make_session_context(file.read(), certificate, key)

    def _remove_key(self) -> None:
        if not self._tls:
            return
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._tls_folder):
                os.unlink(entry.path)
            os.rmdir(self._tls_folder)

    # --- readiness -------------------------------------------------------------------------------

    def _wait_until_ready(self, base: str, host: str, port: int) -> Listener | None:
        """Wait until the app answers. Return the owner of the socket that listens on its port, or
        None after the app's time limit.

        An answer is ignored if the kernel shows no listening socket at the port.
        """
        deadline = time.monotonic() + self._app.timeout_s
        while time.monotonic() < deadline and not self._ended.is_set():
            try:
                status, _ = http_client.request(
                    "GET",
                    base + self._app.readiness_path,
                    timeout_s=_ANSWER_S,
                    context=self._server_context() if self._tls else None,
                )
                if (
                    status < 500
                    and (owner := find_listener_owner(host, port)) is not Listener.NOBODYS
                ):
                    return owner
            except (OSError, http_client.InvalidResponseError):
                pass
            self._ended.wait(_READY_EVERY_S)
        return None


def _hold_port(host: str) -> socket.socket:
    """Return a socket that is bound to a free port of ``host`` and does not listen, so that no
    other program is given this port before the app listens there."""
    port_socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    port_socket.bind((host, 0))
    return port_socket
