"""Decisions for all nodes of a run: when ranks start, which failure is reported, when the run ends.

The coordinator has no thread and no clock: its caller passes events and their times.
"""

from __future__ import annotations

import re
import signal

from aitne_train.launcher.port_listeners import describe_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable, Sequence
    from typing import Any

PREEMPTED = 75
"""Exit code with which a program says that it was asked to end, saved its state and is to be
resumed (EX_TEMPFAIL)."""
LOST = 1
"""Exit code if a node is lost or did not join, or if another account listens on the ranks' port."""
_CAUSE_S = 2.0
"""Seconds to wait after a failure that looks like the consequence of another one, for the report of
the original failure."""
_TRACEBACK = "Traceback (most recent call last)"
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ECHO = re.compile(
    r"HorovodInternalError|TransportError|DistBackendError|DistNetworkError|"
    r"Connection (closed|reset) by peer|BrokenPipeError|ConnectionResetError"
)
_GONE = re.compile(r"\b[Rr]ank (\d+) is gone\b")
_IN_USE = re.compile(r"EADDRINUSE|[Aa]ddress already in use")


class RankFailure:
    """Failure of a rank that ended by itself with an error.

    Args:
        node: number of its node.
        rank: number of the rank; None: the whole node was lost.
        code: exit code.
        lines: last lines of its output.
        message: sentence that explains the failure, without a full stop; None: the rank and its
            exit code explain it.
    """

    def __init__(
        self,
        node: int,
        rank: int | None,
        code: int,
        lines: Sequence[str],
        message: str | None = None,
    ) -> None:
        self.node = node
        self.rank = rank
        self.code = code
        self.lines = list(lines)
        self.message = message

    @property
    def is_consequence(self) -> bool:
        """Return whether the rank probably ended only because another rank had failed: its output
        contains an error such as a closed connection."""
        messages = (line for line in self.lines if not line.startswith(" "))
        return self.code < 128 and any(_ECHO.search(line) for line in messages)

    @property
    def lost_ranks(self) -> set[int]:
        """Return the numbers of the ranks of which the output says that they are gone."""
        return {int(number) for line in self.lines for number in _GONE.findall(line)}

    def lacks_port(self, port: int) -> bool:
        """Return whether the rank ended because the port was in use when it began to listen: its
        output names the error and the port."""
        names_port = re.compile(rf"\b{port}\b")
        return any(map(_IN_USE.search, self.lines)) and any(map(names_port.search, self.lines))


class LaunchCoordinator:
    """Coordinator of a run, on the first node: receives reports from all nodes and orders them to
    start, restart or end their ranks.

    Args:
        names: names of the nodes, in the order of their ranks.
        restarts: maximum number of times that failed ranks are restarted.
        join_by: time by which all nodes must have joined, on the clock of the argument ``now`` of
            ``handle_message``.
        grace_s: seconds that ranks have to end after a signal, or after the first rank has ended.
        send: sends an order to a node, given by its number.
        say: prints a message for the user.
    """

    def __init__(
        self,
        names: Sequence[str],
        restarts: int,
        join_by: float,
        grace_s: float,
        send: Callable[[int, dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> None:
        self._names = list(names)
        self._left = restarts
        self._grace_s = grace_s
        self._send = send
        self._say = say
        self._here: set[int] = set()
        self._gone: set[int] = set()
        self._absent: set[int] = set()
        """Numbers of those lost nodes that had never joined."""
        self._ended: set[int] = set()
        self._running = False
        self._stopping = False
        self._failure: RankFailure | None = None
        self._echo: RankFailure | None = None
        self._completed: dict[int, int] = {}
        """Node of each rank that has ended with exit code 0, in the order of their ends."""
        self._codes: list[int] = []
        self._deadline: float | None = join_by
        self._port = 0
        """``MASTER_PORT`` of the present ranks."""
        self._again, self._has_lost_port = False, False
        """Whether the ranks are to be restarted for a port that was in use, which happens once in a
        run, and whether that has happened."""
        self.generation = 0
        self._signals: list[int] = []
        """Signals that a node received, which ask the run to end or to save its state."""
        self.code: int | None = None
        """Exit code of the run; None while it has not ended."""

    @property
    def deadline(self) -> float | None:
        """Time at which ``tick`` must be called next; None if no call is required."""
        return self._deadline

    def handle_message(self, node: int, message: dict[str, Any] | None, now: float) -> None:
        """Process a message from a node; None means that the connection to the node was lost.
        ``now`` is the current time on the caller's clock."""
        if self.code is not None:
            return
        if message is None:
            self._handle_lost_node(node)
            return
        kind = message["kind"]
        if kind == "here":
            self._names[node] = message.get("name") or self._names[node]
            self._here.add(node)
            if len(self._here) == len(self._names):
                self._start_ranks()
        elif kind == "told":
            self._signals.append(int(message["number"]))
            if not self._running:
                self._end_run(128 + self._signals[0])
            elif message["number"] in _STOPPING:
                self._handle_leave(now)
        elif message.get("generation") != self.generation:
            return  # from ranks that were restarted since
        elif kind == "port":
            self._running, self._port = True, int(message["port"])
            for target in self._list_alive():
                self._send(target, {**message, "kind": "start"})
        elif kind == "foreign":
            self._refuse_port(node, int(message["uid"]))
        elif kind == "rank":
            self._handle_rank_end(node, message, now)
        elif kind == "ended":
            self._ended.add(node)
            self._judge_failures()

    def tick(self, now: float) -> None:
        """Act on the current deadline if it has passed at the time ``now``: for example, end the
        run if nodes have not joined in time.
        """
        if self._deadline is None or now < self._deadline or self.code is not None:
            return
        self._deadline = None
        if not self._running:
            missing = [name for node, name in enumerate(self._names) if node not in self._here]
            self._say(
                f"{', '.join(missing)} did not join in time. See the output there; a node that is "
                "slow to start needs a longer --timeout"
            )
            self._end_run(LOST)
        elif self._echo is not None:
            self._fail_run(self._find_cause(self._echo))
        else:
            self._say(f"ranks that still run {self._grace_s:g} s after the signal are terminated")
            self._codes.append(128 + self._signals[0])
            self._stop_run("the time after the signal is over")

    # --- states of the run -----------------------------------------------------------------------

    def _start_ranks(self) -> None:
        self._running = self._stopping = False
        self._deadline = None
        self._ended = set()
        self._completed = {}
        self._send(0, {"kind": "prepare", "generation": self.generation})

    def _handle_rank_end(self, node: int, message: dict[str, Any], now: float) -> None:
        code, rank = int(message["code"]), message["rank"]
        if code == 0:
            if not self._signals and not self._stopping:
                self._completed[rank] = node
            return
        if self._signals and (code == PREEMPTED or code - 128 in self._signals):
            self._codes.append(code)
            self._handle_leave(now)
            return
        if code == 128 + signal.SIGKILL and any(number in _STOPPING for number in self._signals):
            self._codes.append(
                128 + self._signals[0]
            )  # killed because it did not end after the signal
            return
        if self._stopping or self._failure is not None:
            return
        failure = RankFailure(node, rank, code, message["lines"])
        if not self._has_lost_port and failure.lacks_port(self._port):
            self._again = self._has_lost_port = True
            self._failure, self._deadline = failure, None
            self._say(
                f"port {self._port} was in use when rank {rank} began to listen there: all ranks are "
                "restarted once with another port"
            )
            self._stop_run("a port was in use")
        elif not failure.is_consequence:
            self._fail_run(failure)
        elif self._echo is None:
            self._echo, self._deadline = failure, now + _CAUSE_S

    def _handle_leave(self, now: float) -> None:
        if self._deadline is None and not self._stopping:
            self._deadline = now + self._grace_s

    def _handle_lost_node(self, node: int) -> None:
        if node not in self._here:
            self._absent.add(node)
        self._gone.add(node)
        self._here.add(node)
        self._ended.add(node)
        if any(number in _STOPPING for number in self._signals):
            self._codes.append(128 + self._signals[0])
        elif self._failure is None and not self._stopping:
            self._fail_run(RankFailure(node, None, LOST, ()))
        self._judge_failures()

    def _find_cause(self, echo: RankFailure) -> RankFailure:
        """Return the failure to report for a rank that has lost the connection to another one: that
        of the rank that had ended with exit code 0 although others needed it, otherwise ``echo``."""
        gone = echo.lost_ranks or set(self._completed)
        rank = next((rank for rank in self._completed if rank in gone), None)
        if rank is None:
            return echo
        node = self._completed[rank]
        message = (
            f"rank {rank} on node {self._names[node]} ended with exit code 0 before the others: rank {echo.rank} "
            f"on node {self._names[echo.node]} lost the connection to it and {describe_exit(echo.code)}"
        )
        return RankFailure(node, rank, echo.code, echo.lines, message)

    def _fail_run(self, failure: RankFailure) -> None:
        self._failure, self._deadline = failure, None
        self._say(self._describe_failure(failure))
        self._stop_run("a rank has failed")
        self._send(
            failure.node,
            {
                "kind": "mark",
                "rank": failure.rank,
                "code": failure.code,
                "message": failure.message,
                "generation": self.generation,
            },
        )

    def _refuse_port(self, node: int, uid: int) -> None:
        """End the run at once, because another account listens where the ranks would connect."""
        listener = describe_foreign(uid, self._port, self._names[node])
        sentence = f"{listener}, the MASTER_PORT of the ranks: all ranks are killed"
        self._failure, self._deadline = RankFailure(node, None, LOST, ()), None
        self._left, self._again, self._stopping = 0, False, True
        self._say(sentence)
        for target in self._list_alive():
            self._send(
                target,
                {"kind": "signal", "number": int(signal.SIGKILL), "generation": self.generation},
            )
        mark = {"kind": "mark", "rank": 0, "code": LOST, "message": sentence}
        self._send(node, {**mark, "generation": self.generation})

    def _stop_run(self, reason: str) -> None:
        if self._stopping:
            return
        self._stopping = True
        for node in self._list_alive():
            self._send(node, {"kind": "stop", "why": reason, "generation": self.generation})

    def _judge_failures(self) -> None:
        if self._running and len(self._ended) < len(self._names):
            return
        if self._failure is None and self._echo is not None:
            self._fail_run(self._find_cause(self._echo))
        if self._failure is None:
            self._end_run(PREEMPTED if PREEMPTED in self._codes else (self._codes or [0])[0])
        elif (self._left or self._again) and not self._signals and not self._gone:
            if not self._again:
                self._left -= 1
                self._say(f"all ranks are restarted ({self._left} more restarts are allowed)")
            self.generation += 1
            self._failure = self._echo = None
            self._codes, self._again = [], False
            self._start_ranks()
        else:
            self._end_run(self._failure.code)

    def _end_run(self, code: int) -> None:
        self.code = code
        for node in range(len(self._names)):  # also nodes whose "here" has not arrived
            if node not in self._gone:
                self._send(node, {"kind": "over", "code": code})

    def _list_alive(self) -> list[int]:
        return [node for node in sorted(self._here) if node not in self._gone]

    def _describe_failure(self, failure: RankFailure) -> str:
        name = self._names[failure.node]
        if failure.node in self._absent:
            text = f"no ranks can be started on node {name}: the launcher there has ended, with the reason above"
        elif failure.rank is None:
            text = f"node {name} is lost, with its ranks"
        elif failure.message is not None:
            text = failure.message
        else:
            text = f"rank {failure.rank} on node {name} {describe_exit(failure.code)}"
        if failure.lines:
            text += ". Its last output:\n" + "\n".join(f"  | {line}" for line in failure.lines)
        return text


def describe_exit(code: int) -> str:
    """Return a phrase for messages about how a process with the exit code ``code`` ended, for
    example by which signal."""
    if code <= 128:
        return f"ended with exit code {code}"
    try:
        number = signal.Signals(code - 128)
    except ValueError:
        return f"ended with exit code {code}"
    words = f"was ended by signal {number.value} ({number.name}: {signal.strsignal(number)})"
    if number == signal.SIGKILL:
        words += ", which the kernel also sends when memory runs out"
    return words


def extract_traceback(lines: Sequence[bytes]) -> list[str]:
    """Return the last traceback in a rank's output with all lines after it, or the last ten lines
    if there is no traceback."""
    text = [line.decode("utf-8", "replace") for line in lines]
    begins = [at for at, line in enumerate(text) if line.startswith(_TRACEBACK)]
    if not begins:
        return text[-10:]
    first = begins.pop()
    # An exception that another one caused: Python prints both, with a sentence in between.
    while begins and any("above exception" in line for line in text[max(0, first - 3) : first]):
        first = begins.pop()
    return text[first:]
