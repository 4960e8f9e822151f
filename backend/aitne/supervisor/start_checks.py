"""Checks before the platform's processes are started.

The message of each error says what to do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.core.users.auth_settings import is_loopback
from aitne.local_system.dev_cluster_records import find_dev_cluster, list_dev_clusters
from aitne.local_system.own_account import own_account_name
from aitne.services.platform.restore_in_progress import check_no_interrupted_restoration
from aitne.supervisor import per_user_accounts
from aitne.supervisor.process_account import ProcessAccount, acting_as
from aitne.supervisor.supervisor_plan import LIVE

OLDEST_PYTHON = (3, 11)
NEEDED_BYTES = 100 * 1024**2
PORT_PATIENCE_S = 3.0
"""Seconds for which to wait until the ports are free, in case an earlier platform was just killed.
"""


def check_requirements(settings: Settings, *, replaces: bool = False) -> ProcessAccount | None:
    """Create the data directory and check what the platform requires.

    Args:
        settings: the settings.
        replaces: whether a running platform with these settings is to be replaced, which uses the
            ports.

    Returns:
        The account under which the platform's processes are to run; None: the account of the
            calling process.

    Raises:
        SetupError: a requirement is not met.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError(
            f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed; this is "
            f"{sys.version.split()[0]} ({sys.executable})."
        )
    _check_mode(settings)
    account = (
        per_user_accounts.prepare_own_accounts(settings) if settings.uses_user_accounts else None
    )
    with acting_as(account):
        check_no_interrupted_restoration(settings.data_dir)
        _prepare_data_dir(settings.data_dir)
        if not replaces:
            check_ports(settings)
    return account


def list_notes(settings: Settings) -> list[str]:
    """Return notes about the settings for the user who starts the platform. They do not prevent the
    start.
    """
    messages = [*_list_dev_cluster_notes(settings), *list_reverse_proxy_notes(settings)]
    if settings.capabilities.remote:
        messages += list_unreachable_notes(settings)
    if settings.uses_user_accounts:
        return messages
    if settings.capabilities.runs_as_users:
        messages += _list_account_notes(settings)
    elif os.geteuid() == 0:
        messages.append(
            "All jobs run as root. To run them as each user's own Unix account, set "
            'mode = "own" under [accounts] in aitne.toml (docs/howto/one-machine.md).'
        )
    return messages


def _list_dev_cluster_notes(settings: Settings) -> list[str]:
    """Return a note with the name of the development cluster that the platform uses, if it uses
    one; otherwise an empty list.
    """
    for name in list_dev_clusters():
        cluster = find_dev_cluster(name)
        if cluster is not None and cluster.slurm_conf == settings.slurm.conf:
            return [f"Slurm: development cluster {name} ({len(cluster.nodes)} nodes)."]
    return []


def list_reverse_proxy_notes(settings: Settings) -> list[str]:
    """Return a note if the platform is behind a reverse proxy and cannot determine the addresses of
    browsers; otherwise an empty list.
    """
    configured = settings.proxy_socket is not None or "FORWARDED_ALLOW_IPS" in os.environ
    if settings.public_url is None or configured:
        return []
    return [
        "All browsers appear with the address of the reverse proxy and share the limits on failed logins: set "
        "`proxy_socket`, and have the proxy use that socket (docs/howto/identity.md)."
    ]


def list_unreachable_notes(settings: Settings) -> list[str]:
    """Return a note if the portal does not listen at the address to which the nodes connect;
    otherwise an empty list.
    """
    at = settings.slurm.portal_address
    if at is None or not is_loopback(settings.bind) or is_loopback(urlsplit(at).hostname):
        return []
    return [
        f"Nodes connect to the portal at {at}, but it listens only on {settings.bind}: set `bind` "
        "to an address that nodes reach, unless a proxy there forwards the connections."
    ]


def _list_account_notes(settings: Settings) -> list[str]:
    if settings.broker.socket is not None:
        if os.getuid() != 0:
            return []
        return [
            "The platform runs as root, which is not necessary with a broker: in production give it an "
            "account of its own (docs/howto/slurm.md)."
        ]
    return [
        "There is no broker (broker.socket is not set): the jobs of all users run as "
        f"{own_account_name()}, the account of this platform."
    ]


def _check_mode(settings: Settings) -> None:
    """Check that no jobs may be left in the data directory that were started with the other
    ``accounts.mode``, and that root does not run all jobs in a data directory of another account.

    Raises:
        SetupError: one of these is the case.
    """
    folder, mode = settings.data_dir, settings.accounts.mode
    earlier = _mode_of_jobs(settings.run_dir / LIVE)
    if earlier not in (None, mode):
        raise SetupError(
            f'Jobs that were started with accounts.mode = "{earlier}" may still run, and mode "{mode}" '
            f"would lose them. End them with `aitne down --data-dir {folder}`, then try again."
        )
    if mode == "shared" and os.geteuid() == 0 and folder.is_dir() and folder.stat().st_uid != 0:
        raise SetupError(
            f"The data directory {folder} belongs to uid {folder.stat().st_uid}, and root would run all "
            'jobs in it. Set mode = "own" under [accounts] in aitne.toml (docs/howto/one-machine.md), or '
            "start the platform as that account, or choose another directory with --data-dir."
        )


def _mode_of_jobs(live: Path) -> str | None:
    """Return the value of ``accounts.mode`` with which jobs that may still run were started; None:
    there are no such jobs.

    Args:
        live: path of the file ``LIVE``.
    """
    try:
        return live.read_text().strip() or "shared"  # an earlier release wrote nothing into it
    except OSError:
        return None


def _prepare_data_dir(folder: Path) -> None:
    other = "Choose another data directory with --data-dir or AITNE_DATA_DIR"
    if folder.exists() and not folder.is_dir():
        raise SetupError(f"The data directory {folder} is a file. {other}.")
    try:
        for path in (folder, *(folder / name for name in ("run", "logs", "hub", "secrets"))):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # An existing folder may be open to others, and it holds the database and all secrets.
            path.chmod(0o700)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".probe-") as probe:
            probe.write(b"\0" * 65_536)
            probe.flush()
            os.fsync(probe.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise SetupError(_explain_failure(folder, error, other)) from error
    if free < NEEDED_BYTES:
        raise SetupError(
            f"The disk of the data directory {folder} is full: {describe_bytes(free, 'down')} are free, "
            f"{describe_bytes(NEEDED_BYTES)} are needed. Make room. Or: {other[0].lower()}{other[1:]}."
        )


def _explain_failure(folder: Path, error: OSError, other: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"The disk or quota of the data directory {folder} is full. Make room. Or: "
            f"{other[0].lower()}{other[1:]}."
        )
    if error.errno == errno.EROFS:
        return f"The data directory {folder} is on a read-only file system. {other}."
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"You may not write to the data directory {error.filename or folder}. Change its owner, "
            f"or: {other[0].lower()}{other[1:]}."
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        broken = Path(error.filename or folder)
        file = next(path for path in (broken, *broken.parents) if path.exists())
        return f"{file} is a file where a folder is needed. {other}."
    return f"The data directory {folder} cannot be used: {error.strerror}. {other}."


def check_ports(settings: Settings) -> None:
    """Check that the ports of the platform are free and different.

    Raises:
        SetupError: one is not.
    """
    listeners = [
        (settings.bind, settings.port, "the portal", "--port, `port` or AITNE_PORT"),
        (settings.bind, settings.port_of_sessions, "the sessions", "`sessions_port`"),
        ("127.0.0.1", settings.port_of_hub, "JupyterHub", "`hub_port`"),
        ("127.0.0.1", settings.port_of_proxy_api, "the proxy's own interface", "`proxy_api_port`"),
    ]
    if settings.tls.enabled:
        listeners.append(
            ("127.0.0.1", settings.port_of_internal, "the portal without TLS", "`internal_port`")
        )
    numbers = [port for _, port, _, _ in listeners]
    for bind, port, whose, setting in listeners:
        if numbers.count(port) > 1:
            raise SetupError(
                f"Port {port} is set for more than one part of the platform. Set another one for "
                f"{whose} with {setting}."
            )
        problem = _wait_until_free(bind, port)
        if problem is None:
            continue
        if problem.errno == errno.EADDRINUSE:
            raise SetupError(
                f"Port {port} on {bind}, meant for {whose}, is in use by another program. End that "
                f"program, or choose another port with {setting} (the others follow `port` unless "
                "they are set)."
            )
        raise SetupError(
            f"{whose[0].upper()}{whose[1:]} cannot listen on {bind}:{port}: {problem.strerror}. Set "
            f"`bind` to an address of this machine, and the port with {setting} to one you may use."
        )


def _wait_until_free(bind: str, port: int) -> OSError | None:
    give_up = time.monotonic() + PORT_PATIENCE_S
    while True:
        problem = _try_listen(bind, port)
        if problem is None or problem.errno != errno.EADDRINUSE or time.monotonic() > give_up:
            return problem
        time.sleep(0.1)


def _try_listen(bind: str, port: int) -> OSError | None:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((bind, port))
            listener.listen(1)
        except OSError as error:
            return error
    return None
