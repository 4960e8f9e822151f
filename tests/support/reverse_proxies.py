"""The reverse proxies of ``docs/howto/reverse-proxy.md`` on loopback, and a browser that reaches them.

The examples run as they are: only addresses, ports and paths are replaced. Host names stay, since the
browser connects to loopback whatever the name.
"""

from __future__ import annotations

import grp
import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.support.certificates import Authority
from tests.support.ports import reserve_ports
from tests.support.requirements import lacking
from tests.support.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "reverse-proxy"
PORTAL = "https://aitne.example.org"
SESSIONS = "https://aitne-sessions.org"
HOSTS = ("aitne-sessions.org", "*.aitne-sessions.org")
CLIENT = "127.0.0.9"
"""The address of the browser, which differs from the proxy's."""
GROUP = "www-data"
"""The group of Debian's nginx and Caddy."""


@dataclass(frozen=True)
class Site:
    """A platform to serve: its folder of certificates and the socket, and the port of its sessions."""

    folder: Path
    authority: Authority
    sessions_port: int

    @property
    def socket(self) -> Path:
        """The value of the setting `proxy_socket`."""
        return self.folder / "run" / "portal.sock"


def prepare(folder: Path) -> Authority:
    """Make the certificates and the folder of the socket as the page tells; return who issued them."""
    folder.chmod(0o711)
    run = folder / "run"
    run.mkdir()
    if os.geteuid() == 0:
        os.chown(run, 0, _group())
        run.chmod(0o2750)
    authority = Authority(folder)
    authority.issue("portal", PORTAL.removeprefix("https://"))
    authority.issue("sessions", *HOSTS)
    return authority


class Front:
    """A reverse proxy that runs: its ports, and the authorities that the browser trusts."""

    def __init__(self, site: Site, http_port: int, https_port: int) -> None:
        self.site = site
        self.http_port, self.https_port = http_port, https_port
        self.trusted = ssl.create_default_context(cafile=str(site.authority.path))

    def browser(self) -> httpx.Client:
        """Return a client with cookies, which follows redirects, at the address ``CLIENT``."""
        return httpx.Client(
            transport=_Transport(self), follow_redirects=True, timeout=30, trust_env=False
        )

    def connect(self, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Open a TLS connection from the browser's address to the server of that name."""
        return context.wrap_socket(self._connection(), server_hostname=host)

    def trusts_the_portal(self) -> bool:
        """Return whether the portal has a certificate that the browser accepts."""
        try:
            self.connect(PORTAL.removeprefix("https://"), self.trusted).close()
        except ssl.SSLError:
            return False
        return True

    def websocket(self, url: str, *, origin: str, cookies: str = "") -> ClientConnection:
        """Open a WebSocket as a page of ``origin`` does."""
        return connect(
            url,
            sock=self._connection(),
            ssl=self.trusted,
            origin=origin,  # type: ignore[arg-type]
            additional_headers={"Cookie": cookies} if cookies else None,
            open_timeout=30,
            max_size=None,
            proxy=None,
        )

    def _connection(self) -> socket.socket:
        return socket.create_connection(
            ("127.0.0.1", self.https_port), timeout=30, source_address=(CLIENT, 0)
        )


class _Transport(httpx.HTTPTransport):
    """Connects to the proxy for every host; TLS and the header Host keep the name."""

    def __init__(self, front: Front) -> None:
        # One connection for each request: those to loopback would be shared by all names.
        alone = httpx.Limits(max_keepalive_connections=0)
        super().__init__(verify=front.trusted, local_address=CLIENT, limits=alone)
        self._front = front

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        secure = request.url.scheme == "https"
        port = self._front.https_port if secure else self._front.http_port
        local = httpx.Request(
            request.method,
            request.url.copy_with(host="127.0.0.1", port=port),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(local)


@contextmanager
def nginx(site: Site) -> Iterator[Front]:
    """Run nginx with the documented file, included by a main file like Debian's."""
    program = _program("nginx")
    http_port = reserve_ports(2)
    front = Front(site, http_port, http_port + 1)
    folder = site.folder / "nginx"
    folder.mkdir()
    paths = {
        "/etc/ssl/aitne": str(site.folder),
        "/run/aitne-portal": str(site.socket.parent),
        "/var/www/acme": str(site.folder / "acme"),
        "http://127.0.0.1:8001": f"http://127.0.0.1:{site.sessions_port}",
    }
    for port, ours in ((80, front.http_port), (443, front.https_port)):
        paths[f"listen {port}"] = f"listen 127.0.0.1:{ours}"
        paths[f"listen [::]:{port}"] = f"listen 127.0.0.2:{ours}"
    (folder / "aitne.conf").write_text(_replaced("nginx.conf", paths))
    temporary = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    (folder / "nginx.conf").write_text(
        "\n".join(
            (
                f"user {GROUP};" if os.geteuid() == 0 else "",
                f"pid {folder}/pid; worker_processes 1; daemon off;",
                "events {}",
                "http { access_log off; gzip on;",
                *(f"{kind}_temp_path {folder}/{kind};" for kind in temporary),
                f"include {folder}/aitne.conf; }}",
            )
        )
    )
    with _running([program, "-e", "stderr", "-c", str(folder / "nginx.conf")], folder, front):
        yield front


@contextmanager
def caddy(site: Site) -> Iterator[Front]:
    """Run Caddy with the documented file; Pebble is the ACME server that it asks for certificates."""
    program = _program("caddy")
    http_port = reserve_ports(6)
    front = Front(site, http_port, http_port + 1)
    folder = site.folder / "caddy"
    folder.mkdir()
    with _pebble(site, front, http_port + 2) as directory:
        file = folder / "Caddyfile"
        paths = {
            "/var/lib/caddy": str(folder),
            "/etc/ssl/aitne": str(site.folder),
            "/run/aitne-portal": str(site.socket.parent),
            "reverse_proxy 127.0.0.1:8001": f"reverse_proxy 127.0.0.1:{site.sessions_port}",
            "# acme_ca https://ca.example.org/acme/directory": f"acme_ca {directory}",
            "# acme_ca_root /etc/ssl/certs/ca.example.org.pem": f"acme_ca_root {site.authority.path}",
        }
        file.write_text(_replaced("Caddyfile", paths))
        adapt = [program, "adapt", "--config", str(file), "--adapter", "caddyfile"]
        adapted = subprocess.run(adapt, check=True, capture_output=True).stdout
        # Ports of loopback alone cannot be told in the file without another line for each site.
        config: dict[str, Any] = json.loads(adapted)
        http = config["apps"]["http"]
        http |= {"http_port": front.http_port, "https_port": front.https_port}
        for server in http["servers"].values():
            server["listen"] = [f"127.0.0.1:{front.https_port}"]
        (folder / "caddy.json").write_text(json.dumps(config))
        with _running([program, "run", "--config", str(folder / "caddy.json")], folder, front):
            eventually("Caddy has its certificate", front.trusts_the_portal)
            yield front


@contextmanager
def _pebble(site: Site, front: Front, port: int) -> Iterator[str]:
    """Run an ACME server on four ports and return its directory; the browser trusts its certificates.

    All host names have the address of loopback.
    """
    program, names = _program("pebble"), _program("pebble-challtestsrv")
    folder = site.folder / "pebble"
    folder.mkdir()
    management, dns, dns_management = range(port + 1, port + 4)
    certificate, key = site.authority.issue("pebble", "127.0.0.1")
    config = {
        "listenAddress": f"127.0.0.1:{port}",
        "managementListenAddress": f"127.0.0.1:{management}",
        "certificate": str(certificate),
        "privateKey": str(key),
        "httpPort": front.http_port,
        "tlsPort": front.https_port,
    }
    (folder / "pebble.json").write_text(json.dumps({"pebble": config}))
    resolver = [names, "-dns01", f"127.0.0.1:{dns}", "-management", f"127.0.0.1:{dns_management}"]
    resolver += ["-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]
    resolver += [word for kind in ("http01", "https01", "tlsalpn01") for word in (f"-{kind}", "")]
    server = [program, "-config", str(folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{dns}"]
    with ExitStack() as running:
        running.enter_context(_process(resolver, folder / "names.log"))
        log = folder / "pebble.log"
        running.enter_context(_process(server, log, {"PEBBLE_VA_NOSLEEP": "1"}))
        eventually("Pebble listens", lambda: _listens(management))
        root = httpx.get(
            f"https://127.0.0.1:{management}/roots/0", verify=front.trusted, trust_env=False
        )
        front.trusted.load_verify_locations(cadata=root.text)
        yield f"https://127.0.0.1:{port}/dir"


@contextmanager
def _running(argv: list[str], folder: Path, front: Front) -> Iterator[None]:
    log = folder / "log"
    environment = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    with _process(argv, log, environment) as process:

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            return _listens(front.https_port) and _listens(front.http_port)

        eventually("the proxy listens", listens)
        yield


@contextmanager
def _process(
    argv: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, **(environment or {})}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _replaced(example: str, words: Mapping[str, str]) -> str:
    text = (EXAMPLES / example).read_text()
    for word, replacement in words.items():
        assert word in text, f"{example} has no {word}"
        text = text.replace(word, replacement)
    return text


def _group() -> int:
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        lacking("proxies", f"needs the group {GROUP} of Debian")


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        lacking("proxies", f"needs {name}: Debian's packages nginx, caddy and pebble")
    return found


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
