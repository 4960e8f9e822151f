"""SSH server for one connection to a running job, using the OpenSSH that is installed on the node.

It runs as the job's user, so no other user can log in. It accepts only the key that the platform
names for this connection, and authenticates with a host key in the job's folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys

from aitne.agent.errors import AttachError
from aitne.agent.program_launcher import remove_tree

_SERVERS = "/usr/sbin:/usr/local/sbin:/usr/bin:/sbin"
_SFTP = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
)
_PUBLIC_KEY = re.compile(r"(?:ssh-ed25519|ecdsa-sha2-nistp[0-9]+|ssh-rsa) [A-Za-z0-9+/=]{40,2000}")
_SEPARATION = "/run/sshd"
_HOST_KEY = "ssh-host-key"
_CONFIG = """\
HostKey {host_key}
AuthorizedKeysFile {keys}
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserEnvironment no
UsePAM no
StrictModes no
PidFile none
LogLevel ERROR
PrintMotd no
PrintLastLog no
X11Forwarding no
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
AllowAgentForwarding yes
ClientAliveInterval 30
AcceptEnv LANG LC_*
Subsystem sftp {sftp}
ForceCommand {command}
"""


class SshServer:
    """SSH server for one connection. ``argv`` is its command, and ``close`` removes its files."""

    def __init__(self, job_dir: str, node: str, terminal: str, public_key: str) -> None:
        """Create the server's files, for a client that has ``public_key``. Raises ``AttachError``
        if this node has no suitable OpenSSH."""
        if not _PUBLIC_KEY.fullmatch(public_key):
            raise AttachError("this is not a public key of SSH")
        sshd = shutil.which("sshd", path=_SERVERS)
        if sshd is None:
            raise AttachError(
                f"the node {os.uname().nodename} has no SSH server. Ask the site's support to install "
                "OpenSSH's server (the package openssh-server) there; its service need not run"
            )
        self._sshd = sshd
        self._folder = os.path.join(job_dir, f"ssh-{terminal}")
        os.mkdir(self._folder, 0o700)
        try:
            host_key = os.path.join(job_dir, _HOST_KEY)
            self.host_key = _make_key(host_key)
            sftp = next((path for path in _SFTP if os.path.exists(path)), "internal-sftp")
            facts = {
                "job_dir": job_dir,
                "node": node,
                "terminal": terminal,
                "sftp": sftp,
                "environ": dict(os.environ),
            }
            self._write_file("place.json", json.dumps(facts))
            command = " ".join(
                _quote_for_shell(word)
                for word in [*_make_agent_command(), "--inside", self._folder]
            )
            self._write_file(
                "keys", f"restrict,pty,port-forwarding,agent-forwarding {public_key}\n"
            )
            self._write_file(
                "config",
                _CONFIG.format(
                    host_key=_quote_path(host_key),
                    keys=_quote_path(f"{self._folder}/keys".replace("%", "%%")),
                    sftp=sftp,
                    command=command,
                ),
            )
        except OSError as error:
            self.close()
            raise AttachError(f"its SSH server cannot be prepared: {error}") from None
        if os.geteuid() == 0:
            # Only a server of root separates privileges.
            os.makedirs(_SEPARATION, mode=0o755, exist_ok=True)

    def argv(self) -> list[str]:
        """Return the command of an SSH server that serves one connection on its standard input and
        output."""
        return [self._sshd, "-i", "-e", "-f", os.path.join(self._folder, "config")]

    def close(self) -> None:
        """Remove the server's files, except the job's host key, which the next connection uses
        again."""
        remove_tree(self._folder)

    def _write_file(self, name: str, text: str) -> None:
        with open(os.path.join(self._folder, name), "x", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)


def _make_key(path: str) -> str:
    """Return the public part of the job's host key, which is created at the first connection."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(f"{path}.pub"):
            if os.path.exists(path):
                os.unlink(path)
            try:
                subprocess.run(
                    ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "aitne", "-f", path],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    check=True,
                    timeout=20,
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise AttachError(
                    f"the job's SSH key cannot be made by ssh-keygen: {error}"
                ) from None
        with open(f"{path}.pub", encoding="ascii") as file:
            kind, key = file.read().split()[:2]
        return f"{kind} {key}"
    finally:
        os.close(lock)


def _make_agent_command() -> list[str]:
    """Return the command line that starts this agent again, from the same zip archive or package,
    with the same Python interpreter. The SSH server runs it as its ForceCommand.
    """
    archive = sys.argv[0]
    if archive.endswith(".pyz"):
        return [sys.executable, "-I", archive]
    return [sys.executable, "-I", "-m", "aitne.agent"]


def _quote_for_shell(word: str) -> str:
    """Quote a word for the shell that executes the line in the server's configuration."""
    return "'" + word.replace("'", "'\\''") + "'"


def _quote_path(path: str) -> str:
    """Quote a path for the SSH server's configuration file."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
