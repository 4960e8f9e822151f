"""Processes of a job under the account of its user, started by a runner that is root. Standard
library only and quick to import, since the runner uses it.

A process accesses the job's folder only after it has given up root. From then on it imports
nothing, because the account may be unable to read this Python installation.
"""

from __future__ import annotations

import os

from aitne.local_system.privilege_drop import become_account

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPORT_BYTES = 400
_UMASK = 0o022
_LOG = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_WITHIN_S = 1.0


class JobAccount:
    """Unix account of a job: uid, gid and the gids of all its groups."""

    def __init__(self, uid: int, gid: int, groups: Sequence[int]) -> None:
        self._uid = uid
        self._gid = gid
        self._groups = tuple(groups)

    @classmethod
    def parse(cls, text: str) -> JobAccount | None:
        """Parse the text form ``uid:gid:gid,gid`` (the inverse of ``str(account)``). Return None for
        an empty text.
        """
        if not text:
            return None
        uid, gid, groups = text.split(":")
        return cls(int(uid), int(gid), [int(group) for group in groups.split(",")])

    def __str__(self) -> str:
        return f"{self._uid}:{self._gid}:{','.join(map(str, self._groups))}"

    def start(
        self, argv: Sequence[str], folder: str, output: Callable[[], tuple[int, int]], report: int
    ) -> int:
        """Start a program in ``folder``, under the account and in a session of its own; return its
        PID. ``argv[0]`` is a path. The call does not wait until the program runs, because the file
        system of a user may hang.

        ``output`` is called under the account; it returns descriptors for the program's standard
        input, and for its standard output and error. The process writes the reason of a failed
        start to the descriptor ``report``.
        """

        def execute() -> None:
            source, sink = output()
            for number, descriptor in enumerate((source, sink, sink)):
                os.dup2(descriptor, number)
            os.execve(argv[0], list(argv), os.environ)  # noqa: S606 - no shell is wanted

        return self._fork_as_account(folder, execute, report)

    def append_to_log(self, folder: str, log: str, text: bytes) -> None:
        """Append ``text`` to the job's log if the log exists; wait only briefly if its file system
        hangs.
        """
        import select

        null = os.open(os.devnull, os.O_WRONLY)
        try:
            writer = os.pidfd_open(
                self._fork_as_account(
                    folder, lambda: os.write(os.open(log, _LOG | os.O_NONBLOCK), text), null
                )
            )
        finally:
            os.close(null)
        select.select([writer], [], [], _WRITE_WITHIN_S)
        os.close(writer)

    def _fork_as_account(self, folder: str, work: Callable[[], object], report: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setsid()
            _default_signals()
            become_account(self._uid, self._gid, self._groups)
            os.umask(_UMASK)
            os.chdir(folder)
            work()
            status = 0
        except BaseException as error:  # noqa: BLE001 - the child never returns to the runner's code
            os.write(report, f"{error}\n".encode("utf-8", "replace")[:REPORT_BYTES])
        finally:
            os._exit(status)


def open_job_streams(log: str) -> tuple[int, int]:
    """Open the standard input (``/dev/null``) and the log of a job's script, relative to the
    current folder; return their descriptors.
    """
    return os.open(os.devnull, os.O_RDONLY), os.open(log, _LOG | os.O_CREAT, 0o600)


def _default_signals() -> None:
    import signal

    signal.set_wakeup_fd(-1)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
