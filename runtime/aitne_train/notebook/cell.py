"""Execution of a cell on ranks: its output, its end, interrupts, and errors."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from aitne_train.notebook import cell_communication_profile, failed_cell_recovery
from aitne_train.notebook.display import CellDisplay, describe_places, format_ranks
from aitne_train.notebook.group_connection import (
    GroupConnection,
    RankAnswerError,
    RankEvent,
    RankRequest,
)
from aitne_train.notebook.rank_groups import OTHER_PYTHON

KILL_S = 5.0
"""Seconds after the second interrupt at which ranks are killed."""
WAIT_S = 1.0
"""Seconds after which a cell that waits for another one says so."""
GUARD_S = 10.0
"""Seconds after the first rank has finished at which the others are named; then twice as long."""
SHOW_S = 0.5
"""Seconds after the first failure at which it is shown if other ranks still run."""
RELEASE_S = 1.0
"""Seconds after an interrupt at which collectives are aborted that have not ended by it."""
STILL_S = 60.0
"""Seconds without output after which ranks that stand in different lines are named."""
_TICK_S = 0.1
_LAST_OUTPUT_S = 5.0
_ASK_S = 10.0
_SILENT_S = 30.0
_GONE_LOOK_S = 1.0
_LOOK_S = 1.0
_GONE_S = 2.0
"""Seconds after the end of a group within which its controller's last messages have arrived."""
_CONSEQUENCES = ("KeyboardInterrupt", "DistBackendError", "ConnectionError", "BrokenPipeError")
_CONSEQUENCE_TEXTS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")


class RankCellError(Exception):
    """Error: a cell failed on at least one rank.

    Args:
        failures: the error of each rank that failed, the earliest first.
        nodes: name of the node of each rank.
        shown: rank whose traceback was shown while the cell ran; None: none was.
    """

    def __init__(
        self, failures: Sequence[CellFailure], nodes: Mapping[int, str], shown: int | None = None
    ) -> None:
        self.failures = tuple(failures)
        self._nodes = nodes
        self._shown = shown
        first = self.failures[0]
        super().__init__(f"rank {first.rank} on {nodes[first.rank]}: {first.name}: {first.text}")

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows as the traceback: the first failure with its
        traceback, and one line for each group of ranks with another error."""
        first, *others = self.failures
        same = [each.rank for each in others if (each.name, each.text) == (first.name, first.text)]
        lines = [f"Rank {first.rank} on {self._nodes[first.rank]} failed first:"]
        if first.rank == self._shown or not first.traceback:
            lines.append(f"{first.name}: {first.text}")
        else:
            lines += first.traceback
        if same:
            lines.append(f"[{format_ranks(same)}] the same error")
        groups: dict[tuple[str, str], list[int]] = {}
        for each in others:
            if each.rank not in same:
                groups.setdefault((each.name, each.text), []).append(each.rank)
        for (name, text), ranks in groups.items():
            first_line = text.splitlines()[0][:300] if text else ""
            lines.append(f"[{format_ranks(ranks)}] {name}: {first_line}")
        if any(each.name == "ModuleNotFoundError" for each in self.failures):
            lines.append(OTHER_PYTHON)
        return lines


class RanksLostError(Exception):
    """Error: ranks ended before they had executed a cell completely."""

    def _render_traceback_(self) -> list[str]:
        return [f"RanksLostError: {self}"]


class RanksInterrupt(KeyboardInterrupt):
    """Error: the cell was interrupted by the user."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


@dataclass(frozen=True)
class CellFailure:
    """The error of a cell on one rank."""

    rank: int
    """Number of the rank."""
    name: str
    """Name of the exception's class."""
    text: str
    """Message of the exception."""
    traceback: list[str]
    """Lines of the traceback."""
    at: str
    """Time at which the rank reported the error (ISO 8601); the earliest failure comes first."""

    @property
    def is_consequence(self) -> bool:
        """Return whether the error may be a consequence of the failure of another rank, for example
        a closed connection."""
        return self.name in _CONSEQUENCES or any(part in self.text for part in _CONSEQUENCE_TEXTS)


@dataclass
class _Progress:
    """State of a running cell on its ranks."""

    begun: set[int] = field(default_factory=set)
    replied: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    idle: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    value: Mapping[str, Any] | None = None
    interrupts: int = 0
    kill_at: float | None = None
    first_end: float | None = None
    last_reply: float | None = None
    failed_at: float | None = None
    shown: int | None = None
    look_at: float | None = None
    release_at: float | None = None


class CellValue:
    """Value of a cell's last expression on the lowest rank that executed the cell, in the display
    formats (MIME bundle) of this rank."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._data = content["data"]
        self._metadata = content.get("metadata") or {}

    def _repr_mimebundle_(self, **_named: Any) -> tuple[Any, Any]:
        return self._data, self._metadata

    def __repr__(self) -> str:
        return str(self._data.get("text/plain", ""))


class DistributedCell:
    """A cell that ranks execute.

    Args:
        link: connection to the ranks.
        code: the cell.
        ranks: the ranks that execute it.
        display: where its output is shown.
    """

    def __init__(
        self, link: GroupConnection, code: str, ranks: Sequence[int], display: CellDisplay
    ) -> None:
        self._link = link
        self._code = code
        self._ranks = tuple(sorted(ranks))
        self._display = display
        self._progress = _Progress()
        self._started = self._last_event = time.monotonic()
        self._look_at = self._started + STILL_S
        self._named_at = GUARD_S
        self._places: dict[int, Any] = {}
        self._said_wait = False
        self._asked: Any = None
        self._ask_at = self._started + _ASK_S
        self._asked_at = 0.0
        self._look_gone_at = self._started + _GONE_LOOK_S
        self._gone_at: float | None = None

    def run(self) -> CellValue | None:
        """Execute the cell, and return its value; None if its last statement is not an expression.

        Raises:
            RankCellError: it has failed on ranks.
            RanksLostError: ranks have ended before they had executed it.
            RanksInterrupt: it was interrupted.
        """
        content = {
            "code": self._code,
            "silent": False,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        request = self._link.start("execute_request", content, self._ranks)
        try:
            with _queue_interrupts(request):
                while not self._is_done():
                    self._handle_next_event(request)
                if (self._progress.interrupts or self._list_failures()) and not self._progress.lost:
                    failed_cell_recovery.recover_connections(self._link, self._display)
        finally:
            self._link.finish(request)
            self._display.finish()
        return self._build_result()

    # --- progress --------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        progress = self._progress
        over = progress.lost | progress.replied.keys()
        if len(over) < len(self._ranks):
            return False
        # Output travels another way than the reply; the state `idle` follows the last of it.
        silent = progress.replied.keys() - progress.lost <= progress.idle
        late = time.monotonic() - (progress.last_reply or 0.0) > _LAST_OUTPUT_S
        return silent or late

    def _handle_next_event(self, request: RankRequest) -> None:
        now = time.monotonic()
        due = self._display.deadline
        wait_s = _TICK_S if due is None else min(_TICK_S, max(0.0, due - now))
        event = request.wait_for_event(wait_s)
        while event is not None:
            self._handle_event(event, request)
            event = request.wait_for_event(0) if not self._is_done() else None
        self._display.flush()
        self._act_on_time(time.monotonic())

    def _handle_event(self, event: RankEvent, request: RankRequest) -> None:
        progress, now = self._progress, time.monotonic()
        if event.kind == "interrupt":
            self._handle_interrupt(request)
            return
        self._last_event = now
        if event.kind == "busy":
            progress.begun.add(event.rank)
        elif event.kind == "idle":
            progress.idle.add(event.rank)
        elif event.kind == "lost":
            progress.lost.add(event.rank)
            progress.first_end = progress.first_end or now
        elif event.kind == "reply":
            progress.replied[event.rank] = event.message
            progress.first_end = progress.first_end or now
            progress.last_reply = now
            if event.message["content"]["status"] == "error":
                progress.failed_at = progress.failed_at or now
        elif event.kind == "output":
            self._show_output(event)

    def _show_output(self, event: RankEvent) -> None:
        kind = event.message["header"]["msg_type"]
        if kind == "execute_result":
            if event.rank == self._ranks[0]:
                self._progress.value = event.message["content"]
        elif kind != "error":
            self._display.queue_output(event.rank, event.message)

    @property
    def _running_ranks(self) -> list[int]:
        over = self._progress.lost | self._progress.replied.keys()
        return [rank for rank in self._ranks if rank not in over]

    # --- what is said meanwhile ------------------------------------------------------------------

    def _act_on_time(self, now: float) -> None:
        progress = self._progress
        if progress.kill_at is not None and now >= progress.kill_at:
            progress.kill_at = None
            self._display.print_line("The ranks have not ended: they are killed (SIGKILL).")
            self._link.signal(signal.SIGKILL, self._link.alive_ranks)
        if not self._running_ranks:
            return
        if not progress.begun and not self._said_wait and now - self._started > WAIT_S:
            self._said_wait = True
            self._report_wait()
        if progress.failed_at is not None and now - progress.failed_at >= SHOW_S:
            self._show_failure(now)
        if progress.release_at is not None and now >= progress.release_at:
            progress.release_at = None
            failed_cell_recovery.release_ranks(self._link, self._ranks, "The cell was interrupted.")
        if progress.first_end is not None:
            if now - progress.first_end >= self._named_at:
                self._named_at *= 2
                self._report_late_ranks(now - progress.first_end)
        elif progress.begun and now >= max(self._look_at, self._last_event + STILL_S):
            self._look_at = now + STILL_S
            self._report_diverged_ranks()
        self._check_controller(now)

    def _report_wait(self) -> None:
        with contextlib.suppress(RankAnswerError):
            table = self._link.ask_controller("ranks_request")["ranks"]
            busy = [
                row for row in table if row["busy_s"] is not None and row["rank"] in self._ranks
            ]
            if not busy:
                return
            others = [row for row in busy if row["client"] != self._link.client_id]
            since = max(row["busy_s"] for row in busy)
            whose = "a cell of another kernel" if others else "an earlier cell"
            self._display.print_line(
                f"Ranks {format_ranks(row['rank'] for row in busy)} still execute {whose}, since {since:.0f} s: this cell "
                "waits for it. `%ranks interrupt` in another notebook ends that one; Interrupt here ends the wait."
            )

    def _show_failure(self, now: float) -> None:
        """Show the first failure while other ranks still run, and release those that wait."""
        progress, first = self._progress, self._list_failures()[0]
        nodes = {rank: self._link.ranks[rank].node for rank in self._ranks}
        if progress.shown is None:
            progress.shown = first.rank
            progress.look_at = now
            self._display.print_line(
                f"Rank {first.rank} on {nodes[first.rank]} failed, before the end of "
                f"{_count_ranks(self._running_ranks)}:"
            )
            for line in first.traceback or [f"{first.name}: {first.text}"]:
                self._display.print_line(line)
        if progress.look_at is not None and now >= progress.look_at:
            progress.look_at = now + _LOOK_S
            places = self._link.locate_ranks(self._running_ranks)
            if any(place.get("exchanges") for place in places.values()):
                progress.look_at = None
                ended = [rank for rank in self._ranks if rank not in self._running_ranks]
                reason = (
                    f"Rank {first.rank} has ended its cell with {first.name}: {first.text[:300]}"
                )
                failed_cell_recovery.release_ranks(self._link, ended, reason)

    def _report_late_ranks(self, since_s: float) -> None:
        late = self._running_ranks
        done = [rank for rank in self._ranks if rank not in late]
        failed = [
            rank
            for rank, message in self._progress.replied.items()
            if message["content"]["status"] == "error"
        ]
        how = f"; {_count_ranks(failed)} failed" if failed else ""
        self._display.print_line(
            f"{_count_ranks(done)} finished{how}, but {_count_ranks(late)} did not in the {since_s:.0f} s since:"
        )
        for line in describe_places(self._link.locate_ranks(late)):
            self._display.print_line(f"  {line}")
        self._display.print_line(
            "  If they wait for a rank that has finished, Interrupt ends the cell."
        )

    def _report_diverged_ranks(self) -> None:
        places = self._link.locate_ranks(self._running_ranks)
        lines = {place["line"] for place in places.values()}
        if len(lines) > 1 and places == self._places:
            self._display.print_line(
                f"No output for {STILL_S:.0f} s, and ranks stand in different lines of the cell:"
            )
            for line in describe_places(places):
                self._display.print_line(f"  {line}")
        self._places = places

    def _check_controller(self, now: float) -> None:
        if now >= self._look_gone_at:
            self._look_gone_at = now + _GONE_LOOK_S
            if self._gone_at is None and self._link.is_removed:
                self._gone_at = now
        if self._gone_at is not None and now - self._gone_at > _GONE_S:
            self._link.message = self._link.message or "the controller of the ranks has ended"
            self._progress.lost.update(self._running_ranks)
        if self._asked is None and now >= self._ask_at:
            self._asked, self._asked_at = self._link.ping_controller(), now
        elif self._asked is not None and self._asked():
            self._asked, self._ask_at = None, now + _ASK_S
        elif self._asked is not None and now - self._asked_at > _SILENT_S:
            self._link.message = (
                self._link.message or "the controller of the ranks no longer answers"
            )
            self._progress.lost.update(self._running_ranks)

    # --- interrupts ------------------------------------------------------------------------------

    def _handle_interrupt(self, request: RankRequest) -> None:
        progress = self._progress
        progress.interrupts += 1
        if progress.interrupts == 1 and not progress.begun:
            self._link.cancel(request)
            raise RanksInterrupt("the cell had not begun and was taken back")
        if progress.interrupts == 1:
            self._link.signal(signal.SIGINT, self._running_ranks)
            progress.release_at = time.monotonic() + RELEASE_S
        elif progress.kill_at is None:
            self._display.print_line(
                f"Second interrupt: the rank group ends (SIGTERM), and is killed after {KILL_S:.0f} s."
            )
            self._link.signal(signal.SIGTERM, self._link.alive_ranks)
            progress.kill_at = time.monotonic() + KILL_S

    # --- the end ---------------------------------------------------------------------------------

    def _build_result(self) -> CellValue | None:
        progress = self._progress
        self._report_cut_output()
        self._report_communication()
        nodes = {rank: self._link.ranks[rank].node for rank in self._ranks}
        if progress.lost:
            raise RanksLostError(self._explain_loss(progress.lost))
        failures = self._list_failures()
        if failures and progress.interrupts and failures[0].name == "KeyboardInterrupt":
            ranks = format_ranks(failure.rank for failure in failures)
            raise RanksInterrupt(f"interrupted on ranks [{ranks}]")
        if failures:
            raise RankCellError(failures, nodes, progress.shown)
        return CellValue(progress.value) if progress.value is not None else None

    def _list_failures(self) -> list[CellFailure]:
        """Return the failures so far, the first one first."""
        failures = []
        for rank, message in self._progress.replied.items():
            content = message["content"]
            if content["status"] != "ok":
                at = str(message["header"]["date"])
                name, text = content.get("ename", "Aborted"), content.get("evalue", "")
                failures.append(CellFailure(rank, name, text, content.get("traceback", []), at))
        return sorted(failures, key=lambda failure: (failure.is_consequence, failure.at))

    def _report_cut_output(self) -> None:
        for rank, message in sorted(self._progress.replied.items()):
            cut = message["content"].get("cut")
            if cut:
                failure = f" ({cut['failure']})" if cut["failure"] else ""
                where = cut["path"] or "no file"
                self._display.print_line(
                    f"[{rank}] printed {cut['bytes'] / 1e6:.1f} MB more, which is in {where}{failure}"
                )

    def _report_communication(self) -> None:
        replies = [message["content"] for message in self._progress.replied.values()]
        profiles = [each["communication"] for each in replies if each.get("communication")]
        if line := cell_communication_profile.describe_communication(profiles):
            self._display.print_line(line, "stdout")

    def _explain_loss(self, lost: set[int]) -> str:
        text = self._link.message or next(
            (self._link.deaths[rank] for rank in sorted(lost) if rank in self._link.deaths),
            f"{_count_ranks(sorted(lost))} ended",
        )
        if "SIGKILL" in text:
            text += ", which the kernel also sends when memory runs out"
        return (
            f"{text}. The rank group has ended with it; the variables of this notebook are kept. "
            "`%ranks start` attaches new ranks"
        )


@contextlib.contextmanager
def _queue_interrupts(request: RankRequest) -> Iterator[None]:
    """Convert SIGINT to an ``interrupt`` event of ``request`` inside the ``with`` block.

    ``KeyboardInterrupt`` could otherwise be raised between two statements that must both run. On
    other threads than the main thread this has no effect.
    """

    def queue_interrupt(_number: int, _frame: FrameType | None) -> None:
        request.put(RankEvent("interrupt", -1, {}))

    try:
        before = signal.signal(signal.SIGINT, queue_interrupt)
    except ValueError:  # not on the main thread, where no interrupt arrives
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _count_ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {format_ranks(ranks)}"
