"""Selection of the platform and of the credential for it.

The first of these is used:

1. the data directory or address that was passed;
2. ``AITNE_DATA_DIR``, or ``AITNE_URL``, with ``AITNE_TOKEN``;
3. the platform that ``aitne up`` started last on this machine;
4. the platform of the last ``aitne login``.

The token of an address is ``AITNE_TOKEN``, else the one stored by ``aitne login``. A data directory
has its own token, readable by the user who started the platform, and so needs no login.

In a session the platform has set ``AITNE_URL`` and, as ``AITNE_TOKEN``, a session token. It permits
less than other credentials, so it is used only for that address, and only if no other credential
for it is known.
"""

from __future__ import annotations

import json
import os
import socket

from aitne.client import credentials
from aitne.core.sessions import session_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE_S = 5.0
SUPERVISOR_TIMEOUT_S = 5.0
SUPERVISED_PATIENCE_S = 20.0


class Platform:
    """Address and credential of a platform.

    ``source`` describes how the platform was selected. ``data_dir`` is the data directory of a
    platform on this machine, None for others. ``ca_file`` is a file with CA certificates that are
    trusted in addition to the system's; None: no such file.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        data_dir: str | None = None,
        source: str = "given",
        ca_file: str | None = None,
    ) -> None:
        self.url = url
        self.token = token
        self.data_dir = data_dir
        self.source = source
        self.ca_file = ca_file

    @property
    def patience_s(self) -> float:
        """Return the time in seconds for which a failed request is retried. It is longer for a
        platform on this machine, whose supervisor restarts it.
        """
        return PATIENCE_S if self.data_dir is None else SUPERVISED_PATIENCE_S

    def is_expected_up(self) -> bool:
        """Return whether the platform is expected to answer: for a platform on this machine,
        whether its supervisor runs; otherwise True.
        """
        return self.data_dir is None or ask_supervisor(self.data_dir, "where") is not None

    def how_to_start(self) -> str:
        """Return a message that states how to start the platform."""
        return describe_not_running(self.data_dir or "")

    def what_to_check(self) -> str:
        """Return a message that states what to check if the platform does not answer although it
        should.
        """
        if self.data_dir is None:
            return f"Check the address ({self.source}) and the network, or ask its administrator."
        return f"`aitne status` shows which part is down; its logs are in {self.data_dir}/logs."


def find_platform(
    url: str | None = None, token: str | None = None, data_dir: str | os.PathLike[str] | None = None
) -> Platform:
    """Find the platform to use, in the order that this module's description gives.

    Raises:
        InvalidInput: both an address and a data directory were passed.
        NotRunning: no platform is known, or the known one does not run.
    """
    env = os.environ
    if url is not None and data_dir is not None:
        from aitne.core.errors import InvalidInput

        raise InvalidInput("An address and a data directory name two platforms: pass only one.")
    token = token or _find_environment_token()
    if data_dir is not None:
        return _make_platform_in_data_dir(os.fspath(data_dir), token, "--data-dir")
    if url is not None:
        return _make_platform_at_url(url, token, "--url")
    if env.get("AITNE_DATA_DIR"):
        return _make_platform_in_data_dir(env["AITNE_DATA_DIR"], token, "AITNE_DATA_DIR")
    started = find_last_data_dir()
    if _session_url() is not None and token is None:
        if started is not None and _serves_address(started, _session_url()):
            return _make_platform_in_data_dir(started, None, "the last `aitne up`")
        return _make_platform_at_url(env["AITNE_URL"], None, "this session")
    if env.get("AITNE_URL"):
        return _make_platform_at_url(env["AITNE_URL"], token, "AITNE_URL")
    if started is not None:
        return _make_platform_in_data_dir(started, token, "the last `aitne up`")
    last = credentials.find_last_url()
    if last is not None:
        return _make_platform_at_url(last, token, "the last `aitne login`")
    from aitne.client.errors import NotRunning

    raise NotRunning(
        "No platform runs on this machine, and you have not logged in to one. Start one with "
        "`aitne up`, or log in to one with `aitne login URL`."
    )


def find_last_data_dir() -> str | None:
    """Return the data directory of the platform that ``aitne up`` started last on this machine;
    None if none was started."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    try:
        with open(os.path.join(base, "aitne", "current"), encoding="utf-8") as file:
            return file.read().strip() or None
    except OSError:
        return None


def ask_supervisor(data_dir: str, verb: str) -> dict[str, Any] | None:
    """Send a request to the supervisor of the platform in ``data_dir`` and return its answer; None
    if no supervisor runs.

    The request ``status`` measures the platform's processes; ``where`` returns only the addresses,
    at once.

    Raises:
        NotAllowed: another user started the platform.
    """
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(SUPERVISOR_TIMEOUT_S)
    try:
        # A socket's path has at most 107 bytes; that of a data directory may be longer.
        folder = os.open(os.path.join(data_dir, "run"), os.O_PATH | os.O_DIRECTORY)
        try:
            line.connect(f"/proc/self/fd/{folder}/supervisor.sock")
        finally:
            os.close(folder)
        line.sendall(json.dumps({"verb": verb}).encode() + b"\n")
        with line.makefile("rb") as reader:
            answer = json.loads(reader.readline())
    except PermissionError as error:
        from aitne.core.errors import NotAllowed

        raise NotAllowed(
            f"The platform in {data_dir} was started by another user. Log in to its address with "
            "`aitne login URL`, or pass --url and a token in AITNE_TOKEN."
        ) from error
    except (OSError, ValueError):
        return None
    finally:
        line.close()
    return answer if isinstance(answer, dict) and "url" in answer else None


def _find_environment_token() -> str | None:
    """Return the token in ``AITNE_TOKEN``; None if there is none, or only a session token."""
    token = os.environ.get("AITNE_TOKEN") or None
    return None if token is None or token.startswith(session_variables.PREFIX) else token


def _session_url() -> str | None:
    """Return the address for which ``AITNE_TOKEN`` is a session token; None outside sessions."""
    url, token = os.environ.get("AITNE_URL"), os.environ.get("AITNE_TOKEN", "")
    return (
        credentials.normalize_url(url)
        if url and token.startswith(session_variables.PREFIX)
        else None
    )


def _serves_address(data_dir: str, address: str | None) -> bool:
    """Return whether the platform in ``data_dir`` runs here and has the address."""
    addresses = ask_supervisor(data_dir, "where") or {}
    return address in {addresses.get("api_url"), addresses.get("url")}


def _make_platform_at_url(url: str, token: str | None, source: str) -> Platform:
    address = credentials.normalize_url(url)
    token = token or credentials.find_token(address)
    ca_file = credentials.find_ca_file(address)
    if address == _session_url():
        token = token or os.environ["AITNE_TOKEN"]
    if address == credentials.normalize_url(os.environ.get("AITNE_URL", "")):
        ca_file = ca_file or os.environ.get(session_variables.CA_FILE) or None
    return Platform(address, token, source=source, ca_file=ca_file)


def _make_platform_in_data_dir(data_dir: str, token: str | None, source: str) -> Platform:
    folder = os.path.abspath(os.path.expanduser(data_dir))
    # A supervisor of an older release, still running, does not know `where`.
    addresses = ask_supervisor(folder, "where") or ask_supervisor(folder, "status")
    if addresses is None:
        from aitne.client.errors import NotRunning

        raise NotRunning(describe_not_running(folder))
    return Platform(
        str(addresses.get("api_url") or addresses["url"]),
        token or _own_token(folder),
        data_dir=folder,
        source=source,
    )


def _own_token(data_dir: str) -> str | None:
    path = os.path.join(data_dir, "secrets", "cli_token")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        from aitne.core.errors import NotAuthenticated

        raise NotAuthenticated(
            f"{path} cannot be read: another user started the platform. Log in with "
            "`aitne login URL`, or pass a token in AITNE_TOKEN."
        ) from error


def describe_not_running(data_dir: str) -> str:
    """Return a message that no platform runs in ``data_dir``, and how to start one."""
    return (
        f"No platform runs in {data_dir}. Start it with `aitne up --data-dir {data_dir} --detach`, "
        "or name another with --url or --data-dir."
    )
