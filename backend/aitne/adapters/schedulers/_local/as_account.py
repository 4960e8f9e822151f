"""Processes of a job under the account of its user, started by a runner of root's. Standard library
only and quick to import, since the runner uses it.

Nothing of the job's folder is touched before the process has given up root. After that nothing is imported: the
account need not be able to read this Python.
"""

from __future__ import annotations

import os

from aitne.host.privileges import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPORT_BYTES = 400
_UMASK = 0o022
_LOG = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_WITHIN_S = 1.0


class JobAccount:
    """Unix account of a job, by numbers."""

    def __init__(self, uid: int, gid: int, groups: Sequence[int]) -> None:
        self._uid = uid
        self._gid = gid
        self._groups = tuple(groups)

    @classmethod
    def parse(cls, text: str) -> JobAccount | None:
        """Return the account that ``str`` wrote; None for the empty text."""
        if not text:
            return None
        uid, gid, groups = text.split(":")
        return cls(int(uid), int(gid), [int(group) for group in groups.split(",")])

    def __str__(self) -> str:
        return f"{self._uid}:{self._gid}:{','.join(map(str, self._groups))}"

    def start(
        self, argv: Sequence[str], folder: str, output: Callable[[], tuple[int, int]], report: int
    ) -> int:
        """Start a program, given by its path, in ``folder`` and in a session of its own; return its
        pid without waiting until it runs, because the file system of a user may hang.

        ``output`` opens the program's standard input and its standard output and error, under the
        account. ``report`` is a descriptor to which the process writes why it could not start.
        """

        def execute() -> None:
            source, sink = output()
            for number, descriptor in enumerate((source, sink, sink)):
                os.dup2(descriptor, number)
            os.execve(argv[0], list(argv), os.environ)  # noqa: S606 - no shell is wanted

        return self._fork(folder, execute, report)

    def append(self, folder: str, log: str, text: bytes) -> None:
        """Append to the job's log, if there is one, waiting a moment at most for its file system."""
        import select

        null = os.open(os.devnull, os.O_WRONLY)
        try:
            writer = os.pidfd_open(
                self._fork(folder, lambda: os.write(os.open(log, _LOG | os.O_NONBLOCK), text), null)
            )
        finally:
            os.close(null)
        select.select([writer], [], [], _WRITE_WITHIN_S)
        os.close(writer)

    def _fork(self, folder: str, work: Callable[[], object], report: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setsid()
            _default_signals()
            become(self._uid, self._gid, self._groups)
            os.umask(_UMASK)
            os.chdir(folder)
            work()
            status = 0
        except BaseException as error:  # noqa: BLE001 - the child never returns to the runner's code
            os.write(report, f"{error}\n".encode("utf-8", "replace")[:REPORT_BYTES])
        finally:
            os._exit(status)


def job_streams(log: str) -> tuple[int, int]:
    """Open the standard input of a job's script and its log, in the present folder."""
    return os.open(os.devnull, os.O_RDONLY), os.open(log, _LOG | os.O_CREAT, 0o600)


def _default_signals() -> None:
    import signal

    signal.set_wakeup_fd(-1)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
