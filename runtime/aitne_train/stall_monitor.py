"""Detection of stalled runs by the ranks themselves: which ranks the others wait for, and the
stacks of every rank.

A thread of each rank reports to rank 0 every few seconds how long the main thread has waited, and
in what. If a collective makes no progress for ``AITNE_GUARD_LAG_S`` (30 s; 0: no monitoring), or
all ranks wait outside of collectives, rank 0 writes one line to the log, with the missing ranks and
what these wait for. If a second look confirms that they are stalled and not only slow, it requests
the stacks of all ranks and writes them to the log once. Rank 1 does the same if rank 0 no longer
sends reports.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aitne_train import profiler, stacks, stall_detection, timeline
from aitne_train.interruptible_event import Flag
from aitne_train.main_thread_observer import MainThreadActivity, MainThreadObserver
from aitne_train.record_ring import RecordRing

if TYPE_CHECKING:
    from aitne_train.context import Context

LAG_S = 30.0
_BEATS_PER_LAG = 6
_BEAT_MOST_S = 5.0
_ANSWER_S = 3.0
_MOST_GROUPS = 16
"""Maximum number of different stacks in the log; files contain all of them."""


def start_monitoring(context: Context) -> None:
    """Start the profile, the timeline and the monitor of this rank, and measure the links if
    requested; called at the end of ``init``.

    They are stopped when the context is closed.

    Raises:
        ValueError: ``AITNE_GUARD_LAG_S`` is not a number.
        HorovodInternalError: links are measured, and two ranks cannot exchange data.
    """
    world, control = context.world, context.control
    timeline.start_from_environment(world.rank)
    if world.rank == 0:
        context.on_close(timeline.stop_timeline)
    recorder = context.recorder
    folder = profiler.find_profile_folder()
    if isinstance(recorder, RecordRing) and folder is not None:
        rank_profiler = profiler.Profiler(
            recorder,
            world.rank,
            context.nodes,
            lambda payload: control.send(0, "profile", payload),
            folder,
        )
        if world.rank == 0:
            control.register_handler("profile", rank_profiler.store_totals)
            control.register_lost_handler(lambda rank, _why: rank_profiler.record_lost_rank(rank))
        context.on_close(rank_profiler.close)
        rank_profiler.start()
    lag_s = read_lag_s()
    if lag_s > 0 and world.size > 1:
        monitor = RankMonitor(context, lag_s)
        context.on_close(monitor.close)
        monitor.start()
    if os.environ.get("AITNE_LINK_CHECK", "0") not in ("", "0") and world.size > 1:
        from aitne_train import linkcheck  # most runs do not need it

        linkcheck.check_at_start(context)


def read_lag_s(environ: Mapping[str, str] = os.environ) -> float:
    """Return the seconds after which a waiting rank is reported, from ``AITNE_GUARD_LAG_S``; 0:
    never.

    Raises ``ValueError`` if the variable is not a number of seconds.
    """
    text = environ.get("AITNE_GUARD_LAG_S", "")
    try:
        lag_s = float(text) if text else LAG_S
    except ValueError:
        lag_s = -1.0
    if not 0 <= lag_s < float("inf"):
        raise ValueError(f"AITNE_GUARD_LAG_S is {text!r}, not a number of seconds")
    return lag_s


class RankMonitor:
    """Monitor of one rank: it sends heartbeats, answers requests for stacks and reports missing
    ranks in the log. It never changes exchanged data.

    Rank 0 receives the heartbeats of all other ranks, and rank 1 those of rank 0.
    """

    def __init__(self, context: Context, lag_s: float) -> None:
        self._rank = context.world.rank
        self._size = context.world.size
        self._nodes = context.nodes
        self._control = context.control
        self._engine = context.engine
        self._lag_s = lag_s
        self._beat_s = min(_BEAT_MOST_S, lag_s / _BEATS_PER_LAG)
        run_dir = os.environ.get("AITNE_RUN_DIR")
        self._folder = Path(run_dir) if run_dir else None
        self._ring = context.recorder if isinstance(context.recorder, RecordRing) else None
        self._observer = MainThreadObserver(self._ring, lag_s / 2)
        began = time.monotonic()
        self._lock = threading.Lock()
        self._answered = Flag()
        self._beats = {rank: stall_detection.Heartbeat(began, 0.0) for rank in range(self._size)}
        self._addresses: dict[int, dict[str, Any]] = {}
        self._stacks: dict[int, str] = {}
        self._reported: tuple[Any, ...] | None = None
        self._suspicion: stall_detection.Suspicion | None = None
        self._stop = Flag()
        control = self._control
        control.register_handler("guard.beat", self._on_heartbeat)
        control.register_handler("guard.stacks", self._on_stack_request)
        control.register_handler("guard.here", self._on_stack)
        control.register_handler("guard.ask", self._on_neighbour_request)
        control.register_lost_handler(self._on_lost_rank)
        self._thread = threading.Thread(target=self._monitor_ranks, name="aitne-guard", daemon=True)

    def start(self) -> None:
        """Start the thread that monitors this rank."""
        self._thread.start()

    def close(self) -> None:
        """Stop the monitoring and its thread."""
        self._stop.set()
        self._answered.set()
        if self._thread.is_alive():  # an interrupt may have come before its start
            self._thread.join()

    def _monitor_ranks(self) -> None:
        payload: list[Any] = [*MainThreadActivity(0.0, 0.0, ""), dict(stacks.build_address())]
        while True:
            # Rank 1 receives the heartbeats of rank 0, rank 0 those of all others.
            self._control.send(1 if self._rank == 0 else 0, "guard.beat", payload)
            before = time.monotonic()
            if self._stop.wait(self._beat_s):
                return
            activity = self._observer.observe()
            payload = [*activity, None]
            if self._rank == 0:
                self._on_heartbeat(0, payload)
            if time.monotonic() - before > self._beat_s + self._lag_s / 2:
                continue  # this process was itself suspended, and reports of others are unread
            if self._rank == 0:
                self._check_ranks()
            elif self._rank == 1:
                self._check_rank_0(max(activity.waiting_s, activity.idle_s))

    # Late ranks

    def _check_ranks(self) -> None:
        with self._lock:
            beats = dict(self._beats)
        now = time.monotonic()
        late = stall_detection.find_stall(beats, self._engine.list_pending(), now, self._lag_s)
        if late is None:
            if self._reported is not None:
                self._reported = self._suspicion = None
                _write_lines("all ranks continue")
            return
        about = (late.what, late.ranks)
        if about != self._reported:
            # A first look, or the late ranks are known better or have changed.
            if self._reported is None or self._suspicion is not None:
                self._suspicion = stall_detection.Suspicion(beats, now)
            self._reported = about
            _write_lines(stall_detection.describe_stall(late, self._nodes))
        elif self._suspicion is not None and self._suspicion.confirm(late, beats, now, self._lag_s):
            self._suspicion = None  # the stacks are written once
            self._report_late(late)

    def _check_rank_0(self, waiting_s: float) -> None:
        with self._lock:
            beat = self._beats[0]
            address = self._addresses.get(0, {})
        now = time.monotonic()
        if waiting_s < self._lag_s or now - beat.at < self._lag_s:
            self._reported = self._suspicion = None
            return
        late = stall_detection.StalledCollective(
            (0,), "an exchange", (1,), waiting_s, frozenset({0})
        )
        if self._reported is None:
            self._reported = (late.what, late.ranks)
            self._suspicion = stall_detection.Suspicion({0: beat}, now)
            _write_lines(stall_detection.describe_stall(late, self._nodes))
        elif self._suspicion is not None:
            self._suspicion = None
            near = bool(address) and self._nodes[0] == self._nodes[1]
            texts = {
                1: stacks.format_own_stacks(),
                0: stacks.request_stacks(address) if near else "does not answer",
            }
            _write_lines(
                f"{stall_detection.describe_stall(late, self._nodes)}\n{_list_stacks(texts)}"
            )

    # Stacks

    def _report_late(self, late: stall_detection.StalledCollective) -> None:
        with self._lock:
            self._stacks = {}
            alive = set(self._beats)
        self._control.broadcast("guard.stacks", None)
        self._wait_for_stacks(alive)
        self._request_from_neighbours(alive)
        silent = "had no time to answer" if self._stop.is_set() else "does not answer"
        with self._lock:
            texts = {rank: self._stacks.get(rank, silent) for rank in sorted(alive)}
        pending = "".join(
            f"\n  {name} waits for {stall_detection.format_ranks(missing)} since {age_s:.0f} s"
            for name, _kind, age_s, missing in self._engine.list_pending()
            if missing
        )
        _write_lines(
            f"{stall_detection.describe_stall(late, self._nodes)}{pending}\n{_list_stacks(texts)}"
        )

    def _wait_for_stacks(self, alive: set[int]) -> None:
        until = time.monotonic() + _ANSWER_S
        while True:
            self._answered.clear()
            with self._lock:
                if alive <= set(self._stacks) or self._stop.is_set():
                    return
            if not self._answered.wait(until - time.monotonic()):
                return

    def _request_from_neighbours(self, alive: set[int]) -> None:
        """Request the stacks of ranks that have not answered from another rank on the same node."""
        with self._lock:
            answered = set(self._stacks)
            addresses = dict(self._addresses)
        silent = alive - answered
        requested = set()
        for rank in sorted(silent & set(addresses)):
            near = [other for other in sorted(answered) if self._nodes[other] == self._nodes[rank]]
            if near:
                requested.add(rank)
                self._control.send(near[0], "guard.ask", [rank, addresses[rank]])
        if requested:
            self._wait_for_stacks(answered | requested)

    # Messages; each on the control thread, or on this rank's guard thread for its own

    def _on_heartbeat(self, sender: int, payload: Any) -> None:
        *activity, address = payload
        with self._lock:
            self._beats[sender] = stall_detection.Heartbeat(time.monotonic(), *activity)
            if address is not None:
                self._addresses[sender] = address

    def _on_stack_request(self, _sender: int, _payload: Any) -> None:
        text = stacks.format_own_stacks()
        # Sent first: the answer arrives before messages of a program that waits for the file.
        self._control.send(0, "guard.here", [self._rank, text])
        self._keep_stack(self._rank, text)

    def _on_neighbour_request(self, _sender: int, payload: Any) -> None:
        # It may take seconds, and this thread must continue to read.
        threading.Thread(
            target=self._request_stack, args=payload, name="aitne-ask", daemon=True
        ).start()

    def _request_stack(self, rank: int, address: Any) -> None:
        text = stacks.request_stacks(address)
        self._control.send(0, "guard.here", [rank, text])
        self._keep_stack(rank, text)

    def _on_stack(self, _sender: int, payload: Any) -> None:
        rank, text = payload
        with self._lock:
            self._stacks[rank] = text
        self._answered.set()

    def _on_lost_rank(self, rank: int, _why: str) -> None:
        with self._lock:
            self._beats.pop(rank, None)

    def _keep_stack(self, rank: int, text: str) -> None:
        if self._folder is None:
            return
        path = self._folder / f"stacks-{rank}.txt"
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            path.write_text(f"rank {rank} at {stamp}\n{text}\n")
        except OSError as error:
            _write_lines(f"{path} cannot be written: {error.strerror}")


def _list_stacks(texts: Mapping[int, str]) -> str:
    """Return the stacks of all ranks as text; equal stacks are listed once, with the ranks that
    have them.
    """
    alike: dict[str, list[int]] = defaultdict(list)
    for rank, text in texts.items():
        alike[text].append(rank)
    parts = [_format_group(ranks, text) for text, ranks in list(alike.items())[:_MOST_GROUPS]]
    if len(alike) > _MOST_GROUPS:
        parts.append(f"--- and {len(alike) - _MOST_GROUPS} more")
    return "\n".join(parts)


def _format_group(ranks: Sequence[int], text: str) -> str:
    return f"--- {stall_detection.format_ranks(ranks)}:\n{text.rstrip()}"


def _write_lines(words: str) -> None:
    """Write all lines to stderr in one call, so that lines of other ranks are not interleaved."""
    lines = words.splitlines()
    sys.stderr.write("".join(f"aitne: {line}\n" for line in lines))
    sys.stderr.flush()
