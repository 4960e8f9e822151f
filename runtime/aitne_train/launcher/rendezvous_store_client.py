"""Rendezvous of the ranks: a key-value store on the first node, whose address is published in a
file.

The port is bound before it is published, so that no other process can take it in between.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
import tempfile
import threading
import time

from aitne_train.launcher import frames
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.own_addresses import LOCAL, own_addresses, split_address
from aitne_train.launcher.rendezvous_store_server import (
    CLAIM,
    GET,
    KEY_LENGTH,
    LINE,
    NO,
    SECONDS,
    SET,
    YES,
    RendezvousServer,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable, Mapping, Sequence

    from aitne_train.launcher.rank_detection import RankTopology

ADDRESSES, TOKEN, PREFIX = (
    "AITNE_RENDEZVOUS",
    "AITNE_RENDEZVOUS_TOKEN",
    "AITNE_RENDEZVOUS_PREFIX",
)
DIR = "AITNE_RENDEZVOUS_DIR"
TIMEOUT = "AITNE_RENDEZVOUS_TIMEOUT"
"""Environment variable: number of seconds within which all ranks must have joined."""
_TIMEOUT_S = 120.0
TRY_S, _ANSWER_S, _LOOK_S = 3.0, 10.0, 0.02


class RendezvousClient:
    """Client of the rendezvous store, through which ranks exchange addresses. It has the interface
    ``Store`` of the transports and may be used from any thread.

    Args:
        addresses: addresses ``host:port`` of the server, which are tried in turn.
        token: secret of the run.
        prefix: put before every key, so that a restart never reads the keys of an earlier start.
    """

    def __init__(self, addresses: Sequence[str], token: str, prefix: str = "") -> None:
        self.addresses = tuple(addresses)
        self.token = token
        self.prefix = prefix
        self.host: str | None = None
        """First host that has answered; None if none has yet."""
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> RendezvousClient:
        """Create a client of the store whose addresses, token and prefix are in the variables that
        ``aitne-run`` sets, such as ``AITNE_RENDEZVOUS``.

        Raises ``LaunchError`` if they are incomplete.
        """
        addresses = [part for part in environ.get(ADDRESSES, "").split(",") if part]
        token = environ.get(TOKEN, "")
        if not addresses or not token:
            raise LaunchError(
                f"{ADDRESSES} and {TOKEN} belong together, and one of them is not set: start the program by aitne-run"
            )
        return cls(addresses, token, environ.get(PREFIX, ""))

    def set(self, key: str, value: bytes) -> None:
        """Store ``value`` under ``key``.

        Raises ``ConnectionError`` if the first node is lost or cannot be reached.
        """
        self._request(self._request_key(SET, key, value), _ANSWER_S)

    def claim(self, key: str, value: bytes) -> bool:
        """Store ``value`` under ``key`` if the key has no value yet; return whether it was stored.

        Raises ``ConnectionError``.
        """
        return self._request(self._request_key(CLAIM, key, value), _ANSWER_S) == YES

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait at most ``timeout_s`` seconds until ``key`` has a value, and return it. Raises
        ``TimeoutError`` or ``ConnectionError``."""
        full = (self.prefix + key).encode()
        answer = self._request(GET + SECONDS.pack(timeout_s) + full, timeout_s + _ANSWER_S)
        if answer == NO:
            raise TimeoutError(f"no rank has set {key} within {timeout_s:g} s")
        return answer[1:]

    def open_line(self, name: str, timeout_s: float = _ANSWER_S) -> socket.socket:
        """Open a persistent connection, named ``name``, to exchange messages (frames of ``frames``)
        with the server.

        Raises:
            ConnectionError: the server cannot be reached.
        """
        sock = self._connect(time.monotonic() + timeout_s)
        sock.sendall(frames.encode_frame(LINE + name.encode()))
        frames.receive_frame(sock, time.monotonic() + timeout_s)
        sock.settimeout(None)
        return sock

    def close(self) -> None:
        """Close the idle connections. A later call opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for sock in idle:
            sock.close()

    def _request_key(self, verb: bytes, key: str, value: bytes) -> bytes:
        full = (self.prefix + key).encode()
        return verb + KEY_LENGTH.pack(len(full)) + full + value

    def _request(self, request: bytes, timeout_s: float) -> bytes:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            sock = self._idle.pop() if self._idle else None
        if sock is None:
            sock = self._connect(min(deadline, time.monotonic() + _ANSWER_S))
        try:
            sock.settimeout(_ANSWER_S)
            sock.sendall(frames.encode_frame(request))
            answer = frames.receive_frame(sock, deadline)
        except OSError as error:
            sock.close()
            if isinstance(error, (ConnectionError, TimeoutError)):
                raise ConnectionError(f"the run's first node does not answer: {error}") from error
            raise ConnectionError(f"the run's first node is lost: {error}") from error
        except BaseException:
            sock.close()
            raise
        with self._lock:
            self._idle.append(sock)
        return answer

    def _connect(self, deadline: float) -> socket.socket:
        failures = []
        ordered = sorted(self.addresses, key=lambda address: split_address(address)[0] != self.host)
        for address in ordered:
            host, port = split_address(address)
            try:
                sock = socket.create_connection((host, port), timeout=TRY_S)
            except OSError as error:
                failures.append(f"{address}: {error}")
                continue
            try:
                frames.enable_keepalive(sock)
                frames.prove_token(sock, self.token, min(deadline, time.monotonic() + TRY_S))
            except OSError as error:
                sock.close()
                failures.append(f"{address}: {error}")
                continue
            self.host = host
            return sock
        raise ConnectionError(f"the run's first node cannot be reached ({'; '.join(failures)})")


# --- without aitne-run ---------------------------------------------------------------------------

_joined: dict[str, RendezvousClient] = {}
_lock = threading.Lock()


def join_store(world: RankTopology, environ: Mapping[str, str]) -> RendezvousClient:
    """Return a client of the store of this rank's run; later calls return the same one.

    If ``aitne-run`` has not created a store, rank 0 does, and publishes its address in a folder
    that all ranks see: ``AITNE_RENDEZVOUS_DIR``, or else a folder of the user in the temporary
    folder (one node) or in ``~/.cache/aitne`` (several nodes). If each rank runs several programs
    one after the other, the first programs of all ranks share a store, the second ones another, and
    so on.

    Raises:
        LaunchError: no variable distinguishes this run from others, ranks do not join within
            ``AITNE_RENDEZVOUS_TIMEOUT`` seconds (default 120), or the store cannot be reached.
    """
    if environ.get(ADDRESSES):
        key = environ[ADDRESSES] + environ.get(PREFIX, "")
    else:
        key = "alone" if world.size == 1 else _derive_run_key(environ)
    with _lock:
        if key not in _joined:
            if environ.get(ADDRESSES):
                _joined[key] = _number_program(RendezvousClient.from_environ(environ), world)
            elif world.size == 1:
                _joined[key], _ = _serve_store(1, environ)
            else:
                _joined[key] = _lead_or_meet(world, environ, key)
        return _joined[key]


def _number_program(client: RendezvousClient, world: RankTopology) -> RendezvousClient:
    """Add to the key prefix of a client how many programs this rank has run before in the same
    run."""
    number = 0
    try:
        while world.size > 1 and not client.claim(f"program/{number}/{world.rank}", b""):
            number += 1
    except ConnectionError as error:
        raise LaunchError(f"rank {world.rank} cannot connect to the others: {error}") from error
    client.prefix += f"{number}/"
    return client


def agree_on_choice(
    world: RankTopology, environ: Mapping[str, str], choose: Callable[[], str]
) -> str:
    """Return the same text ``HOST:CHOICE`` on all ranks: the host of rank 0 and the result of
    ``choose``, which is called on rank 0.

    It is used by a launcher that is replaced by the program afterwards: no connection or file
    remains.

    Raises:
        LaunchError: as ``join_store`` does.
    """
    nodes = -(-world.size // world.local_size)
    timeout_s = float(environ.get(TIMEOUT) or _TIMEOUT_S)
    if world.size == 1:
        return f"{LOCAL}:{choose()}"
    path = _address_path(environ, nodes, f"before;{_derive_run_key(environ)}")
    try:
        if world.rank:
            client = _meet_leader(world, path, timeout_s)
            choice = client.get("choice", timeout_s).decode()
            client.set(f"got/{world.rank}", b"")
            client.close()
            return f"{client.host}:{choice}"
        client, server = _serve_store(nodes, environ)
        publish_address(path, client.addresses, client.token)
        try:
            choice = choose()
            client.set("choice", choice.encode())
            for rank in range(1, world.size):
                client.get(f"got/{rank}", timeout_s)
        finally:
            os.unlink(path)
            server.close()
        return f"{client.host}:{choice}"
    except OSError as error:
        raise LaunchError(
            f"the ranks have not connected within {timeout_s:g} s: {error}"
        ) from error


def _serve_store(
    nodes: int, environ: Mapping[str, str]
) -> tuple[RendezvousClient, RendezvousServer]:
    token = secrets.token_hex(32)
    server = RendezvousServer(token, LOCAL if nodes == 1 else "")
    return RendezvousClient(own_addresses(server.port, environ, nodes), token), server


def _address_path(environ: Mapping[str, str], nodes: int, key: str) -> str:
    return os.path.join(
        create_store_folder(environ, nodes), hashlib.sha256(key.encode()).hexdigest()[:32]
    )


def _lead_or_meet(world: RankTopology, environ: Mapping[str, str], key: str) -> RendezvousClient:
    nodes = -(-world.size // world.local_size)
    timeout_s = float(environ.get(TIMEOUT) or _TIMEOUT_S)
    path = _address_path(environ, nodes, key)
    if world.rank:
        return _meet_leader(world, path, timeout_s)
    client, _ = _serve_store(nodes, environ)
    publish_address(path, client.addresses, client.token)
    remove = _Removal(path)
    atexit.register(remove)
    threading.Thread(
        target=_unpublish_address,
        args=(remove, client, world.size, timeout_s),
        name="aitne-met",
        daemon=True,
    ).start()
    return client


def _meet_leader(world: RankTopology, path: str, timeout_s: float) -> RendezvousClient:
    give_up, reason = time.monotonic() + timeout_s, f"it has published no address in {path}"
    while time.monotonic() < give_up:
        endpoint = read_rendezvous_file(path)
        if endpoint is not None:
            client = RendezvousClient(*endpoint)
            # Each rank is accepted once: the store of an earlier run does not answer, or has all
            # its ranks.
            try:
                if client.claim(f"here/{world.rank}", b""):
                    return client
                reason = "an earlier run of the same name still exists"
            except ConnectionError as error:
                reason = str(error)
        time.sleep(_LOOK_S)
    raise LaunchError(
        f"rank {world.rank} has waited {timeout_s:g} s for rank 0: {reason}. Either rank 0 has not started, or the "
        f"nodes do not share this folder: start the program by aitne-run, or set {DIR} to a folder that all see"
    )


def _unpublish_address(
    remove: _Removal, client: RendezvousClient, size: int, timeout_s: float
) -> None:
    """Remove the file with the store's address when all ranks have joined. If a rank does not join
    within ``timeout_s`` seconds, the file is kept until this process ends."""
    try:
        for rank in range(1, size):
            client.get(f"here/{rank}", timeout_s)
    except (TimeoutError, ConnectionError):
        return  # a rank that misses it reports that
    remove()


class _Removal:
    """Callable that removes a file of this process. Only the first call has an effect, because a
    later file at the same path belongs to another process. Calls in forked processes have none
    either."""

    def __init__(self, path: str) -> None:
        self._path, self._pid, self._done = path, os.getpid(), False

    def __call__(self) -> None:
        if not self._done and self._pid == os.getpid():
            self._done = True
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)


def publish_address(path: str, addresses: Sequence[str], token: str) -> None:
    """Write the store's addresses and token atomically to a file that only its owner can read.

    Raises ``OSError``.
    """
    temporary = f"{path}.{secrets.token_hex(8)}"  # no file or link can exist there
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:
        json.dump({"addresses": list(addresses), "token": token}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


def read_rendezvous_file(path: str) -> tuple[list[str], str] | None:
    """Return the addresses and the token in the published file; None if it does not exist yet.

    Raises:
        LaunchError: the file belongs to another user.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            owner = os.fstat(stream.fileno()).st_uid
            content = json.load(stream)
    except (FileNotFoundError, ValueError):
        return None  # missing, or on a file system that shows a name before its content
    except OSError as error:
        if error.errno == errno.ESTALE:  # NFS: it was replaced during the read
            return None
        raise LaunchError(f"{path} cannot be read: {error.strerror}") from error
    if owner != os.geteuid():
        raise LaunchError(
            f"{path} belongs to another user: remove it, or set {DIR} to a folder of your own"
        )
    return [str(address) for address in content["addresses"]], str(content["token"])


def create_store_folder(environ: Mapping[str, str], nodes: int) -> str:
    """Return the folder in which the ranks of a run on ``nodes`` nodes publish the store's address.
    It is created if it is missing.

    Raises:
        LaunchError: the folder cannot be created, or other users may write to it.
    """
    chosen = environ.get(DIR)
    if chosen:
        path = chosen
    elif nodes == 1:
        path = os.path.join(tempfile.gettempdir(), f"aitne-{os.geteuid()}")
    else:
        path = os.path.join(os.path.expanduser("~"), ".cache", "aitne", "rendezvous")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        stats = os.stat(path)
    except OSError as error:
        raise LaunchError(
            f"{path} cannot be created: {error.strerror}. Set {DIR} to a folder that all ranks see"
        ) from error
    if stats.st_uid != os.geteuid() or stats.st_mode & 0o022:
        raise LaunchError(
            f"{path} can be written by other users: set {DIR} to a folder of your own, mode 700"
        )
    return path


def _derive_run_key(environ: Mapping[str, str]) -> str:
    """Return a text that identifies this run: it is the same on all its ranks, and no other run has
    it. Raises ``LaunchError`` if the environment has none."""
    for names in (
        ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
        ("PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports"),
        ("PMIX_NAMESPACE", "SLURM_JOB_ID"),
        ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        ("MASTER_ADDR", "MASTER_PORT"),
    ):
        if all(name in environ for name in names):
            names = (*names, "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
            return ";".join(f"{name}={environ.get(name, '')}" for name in dict.fromkeys(names))
    if environ.get(DIR):
        return "one run in its own folder"
    raise LaunchError(
        "nothing in the environment distinguishes this run from others: start the program by aitne-run, or set "
        f"{DIR} to a new folder for each run"
    )
