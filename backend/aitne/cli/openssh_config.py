"""Configuration of OpenSSH for connections to jobs, and the proxy command of such a connection."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import sys

from aitne.cli.job_lookup import find_unfinished
from aitne.client import Client, Job
from aitne.client.credentials import config_dir
from aitne.client.record_base import LIVE
from aitne.core.errors import Conflict, InvalidInput, NotFound, SetupError

DOMAIN = ".aitne"
_BEGIN = "# Running jobs of Aitne; `aitne ssh-config --write` rewrites this file."
_MARK = "# aitne"


def get_ssh_dir() -> str:
    """Return the folder of the SSH key and configuration that this program uses for jobs."""
    return os.path.join(config_dir(), "ssh")


def make_config(client: Client) -> str:
    """Return the lines for ``~/.ssh/config``. The key for jobs is created if it does not exist
    yet."""
    _ensure_key()
    program = shutil.which(sys.argv[0]) or sys.argv[0]
    platform = client.platform
    which = ["--url", platform.url]
    if platform.data_dir is not None:
        which = ["--data-dir", platform.data_dir]
    command = shlex.join([os.path.abspath(program), "ssh-proxy", *which]).replace("%", "%%")
    lines = [
        f"User {client.jobs.ssh_account()}",
        f"ProxyCommand {command} %h",
        f"IdentityFile {_quote_path(_key_file())}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {_quote_path(_known_hosts())}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "HostKeyAlgorithms ssh-ed25519",
        "ServerAliveInterval 30",
    ]
    return "\n".join([_BEGIN, f"Host *{DOMAIN}", *(f"    {line}" for line in lines)]) + "\n"


class SshConfigChanges:
    """Pending changes to the user's SSH configuration files, which are shown before they are
    made."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    @property
    def descriptions(self) -> list[str]:
        """Return descriptions of the changes; empty if there is nothing to change."""
        return [f"Writes {path}." for path in self._files]

    def write_files(self) -> None:
        """Write the files. Raises ``SetupError`` if one cannot be written."""
        for path, text in self._files.items():
            try:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                _replace_file(path, text)
            except OSError as error:
                raise SetupError(f"{path} cannot be written: {error.strerror}.") from error


def plan_changes(text: str) -> SshConfigChanges:
    """Return the changes that add ``text`` to the user's SSH configuration.

    ``text`` goes to a separate file. ``~/.ssh/config`` gets an ``Include`` line for that file, at
    its top, so that the line does not become part of a ``Host`` section.
    """
    config_file = os.path.join(get_ssh_dir(), "config")
    theirs = os.path.expanduser("~/.ssh/config")
    line = f"Include {_quote_path(config_file)} {_MARK}\n"
    before = _read_if_present(theirs)
    files = {} if _read_if_present(config_file) == text else {config_file: text}
    if line not in before.splitlines(keepends=True):
        files[theirs] = f"{line}\n{before}" if before else line
    return SshConfigChanges(files)


def run_proxy(client: Client, host: str) -> int:
    """Start an SSH server in the job and forward data between it and the ssh program, which is
    connected to the standard input and output; return the exit status."""
    from aitne.cli.remote_terminal import TerminalTraffic

    job, node = find_job_and_node(client, host)
    public_key = _ensure_key()
    with client.jobs.attach_ssh(job.id, public_key, node=node) as terminal:
        if terminal.host_key is None:
            raise SetupError("The platform did not send the key of the job's SSH server.")
        _store_host_key(host, terminal.host_key)
        return TerminalTraffic(terminal, tty=False, stdin=sys.stdin.fileno()).run()


def find_job_and_node(client: Client, host: str) -> tuple[Job, str | None]:
    """Parse a host name and return the job and the node. ``JOB.aitne`` names a job (the node is
    None), ``NODE.JOB.aitne`` one of its nodes. The case is ignored, because ssh may change it.

    Raises:
        NotFound: no unfinished job has that name.
        InvalidInput: several unfinished jobs have that name.
    """
    name = host.removesuffix(DOMAIN)
    for text, node in _list_possible_names(name):
        try:
            return find_unfinished(client, text), node
        except (NotFound, Conflict):
            matches = [
                job
                for job in client.jobs.list(states=LIVE, top_level=True, search=text[:200])
                if job.name.lower() == text
            ]
        if len(matches) == 1:
            return matches[0], node
        if matches:
            raise InvalidInput(f"{len(matches)} jobs are called {text}: use the id of one.")
    raise NotFound("job", name)


def _list_possible_names(name: str) -> list[tuple[str, str | None]]:
    node, _, rest = name.partition(".")
    return [(name, None), *([(rest, node)] if rest else [])]


def _store_host_key(host: str, key: str) -> None:
    """Store the only host key that ssh will accept for the host, replacing an earlier one."""
    path = _known_hosts()
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = [line for line in _read_if_present(path).splitlines() if line.split(" ")[0] != host]
        _replace_file(path, "\n".join([*lines[-999:], f"{host} {key}"]) + "\n")
    finally:
        os.close(lock)


def _ensure_key() -> str:
    """Return the public key with which the client authenticates to jobs. It is created by
    ssh-keygen the first time.

    Raises:
        SetupError: the key cannot be created.
    """
    path = _key_file()
    try:
        os.makedirs(get_ssh_dir(), mode=0o700, exist_ok=True)
        if not os.path.exists(f"{path}.pub"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "aitne", "-f", path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as error:
        raise SetupError(
            f"A key cannot be created in {get_ssh_dir()}: {error}. Install OpenSSH's client, which has "
            "ssh-keygen."
        ) from error
    kind, key = _read_if_present(f"{path}.pub").split()[:2]
    return f"{kind} {key}"


def _key_file() -> str:
    return os.path.join(get_ssh_dir(), "id_ed25519")


def _known_hosts() -> str:
    return os.path.join(get_ssh_dir(), "known_hosts")


def _read_if_present(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _replace_file(path: str, text: str) -> None:
    target = os.path.realpath(path)  # it may be a link to a file in another folder
    temporary = f"{target}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.replace(temporary, target)


def _quote_path(path: str) -> str:
    """Return a path quoted for an OpenSSH configuration file."""
    return '"' + path.replace("%", "%%") + '"' if set(path) & set(" \t%") else path
