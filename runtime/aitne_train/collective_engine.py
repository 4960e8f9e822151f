"""Engine that accepts collectives on this rank and executes them in the order that rank 0
determines.

A thread of the program that waits for a collective receives messages and executes collectives
itself until its own is done. Threads of the engine do both while no thread waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from aitne_train import abandoned_collectives
from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collective_arithmetic import UnsupportedError
from aitne_train.collective_coordinator import RequestKey
from aitne_train.collective_request import Kind, Request, RequestMetadata
from aitne_train.control_channel import Control
from aitne_train.coordinator_client import (
    CoordinatorClient,
    LocalCoordinatorClient,
    RemoteCoordinatorClient,
    Waits,
)
from aitne_train.errors import HorovodInternalError
from aitne_train.exchange_step_progress import StepProgress
from aitne_train.execution import Execution
from aitne_train.gpu_stream_sync import CompletionEvent, InputEvent
from aitne_train.interruptible_event import Flag
from aitne_train.joined_rank_proxy import JoinedRankProxy, StepCallback
from aitne_train.pending_requests import ExecutionTask, Requests, Wait, execute_task
from aitne_train.stall_inspector import StepLimit
from aitne_train.transport.base import TransportError

log = logging.getLogger("aitne_train")

BLOCKED_S = 1.0
"""Seconds that a thread waits before rank 0 is informed that this rank is blocked."""
_NEWS_S = 2.0
# The control connection also reports a lost rank, with more details than a broken transport.
_LEAVE_S = 10.0
_OWN_THREADS = "aitne-"
"""Prefix of the names of the threads that the runtime starts."""


class CollectiveEngine:
    """Executor of the collectives of this rank, from ``init`` to ``shutdown``: submits requests to
    the coordinator on rank 0 and executes its responses. Any thread may call the methods.
    """

    def __init__(self, control: Control, execution: Execution) -> None:
        self._control = control
        self._execution = execution
        self.rank = control.rank
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._worker: threading.Thread | None = None
        self._waiting = 0
        self._reader: int | None = None
        self._busy = False
        self._queue: deque[ExecutionTask] = deque()
        self._requests = Requests()
        self._waits: dict[int, Wait] = {}
        """By thread identifier: the wait of the thread."""
        self._blocked = False
        """Whether rank 0 has been informed that this rank is blocked."""
        self._failed: str | None = None
        self._leaving: str | None = None
        self._drained_reported = False
        self._over = Flag()
        self._news = Flag()
        self._stand_in = JoinedRankProxy(self._stop_joined_proxy)
        self._joining: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.limit = StepLimit(self._on_step_stall)
        """Context manager that limits each wait in an optimizer's exchange step."""
        self._lead: CoordinatorClient
        if self.rank == 0:
            self._lead = LocalCoordinatorClient(
                control, self._lock, self._release_task, self._accept_response, self._join_step
            )
        else:
            self._lead = RemoteCoordinatorClient(control)
        control.register_handler("do", self._on_response)
        control.register_handler("step", self._on_step)
        # Rank 0 informs itself with its lock held; the others need no lock for a message.
        self._progress = StepProgress(self._lead.begin_step)
        control.register_handler("tell", lambda _, enabled: self._progress.set_reporting(enabled))
        control.register_handler("leaving", self._on_shutdown)
        control.register_handler("over", lambda _sender, _payload: self._over.set())
        control.register_handler("failed", lambda _sender, reason: self.fail(reason))
        self._lead.listen()
        control.register_lost_handler(self._on_lost_rank)

    # For callers

    def submit(self, request: Request, waiting: bool = False) -> int:
        """Submit a request of this rank; return at once a handle for ``poll`` and ``wait``.
        ``waiting``: the caller calls ``wait`` next, so no thread of the engine needs to be woken.

        Raises:
            ValueError: a request of the same name is in progress, or this rank is not in the set.
            HorovodInternalError: the connection to a rank is lost, or the runtime was shut down.
        """
        ask = RequestMetadata.from_request(request)
        ready = InputEvent.record(request.tensors)
        with self._lock:
            self.check()
            members = self._execution.sets.get(ask.set_id)
            if members is None:
                raise ValueError("Process set does not exist or has not been registered.")
            if self.rank not in members:
                raise ValueError(
                    f"{ask.kind}: rank {self.rank} is not part of process set {ask.set_id}."
                )
            handle, number, key = self._requests.add(ask, request, ready)
            abandoned_collectives.set_awaited_request(key)
            self._blocked = False
            if ask.kind == Kind.JOIN:
                self._execution.join_device = request.device or "cpu"
                self._progress.report_steps()
            if waiting:
                self._waiting += 1
            self._lead.submit(handle, number, ask)
        return handle

    def run(self, request: Request) -> tuple[torch.Tensor, ...]:
        """Submit a request, wait for it and return its outputs; costs less than ``submit`` and
        ``wait``, because often no thread needs to be woken.
        """
        return self.run_for_data(request)

    @mark_collective("a collective")
    def run_for_data(self, request: Request) -> Any:
        """Submit a request, wait until all ranks have executed it, and return its result, whose
        type depends on the kind of the request.

        ``ADD_SET`` returns the number of the new process set, or None if a set of these ranks
        exists already. ``REMOVE_SET`` returns the number of the removed set, or None if there is no
        such set. ``CHANNEL`` returns the number and the transport of the connection, or None if a
        rank has joined. ``JOIN`` returns the rank that joined last. The other kinds return their
        output tensors, as ``run`` does.
        """
        return self._wait_for_request(self.submit(request, waiting=True), registered=True)

    def join(self, request: Request) -> int:
        """Execute a request of kind ``join``; return the rank that joined last."""
        for begins, _ in self._joining:
            begins()
        last: int = self.run_for_data(request)
        self._stand_in.wait_for_steps()
        for _, ends in self._joining:
            ends()
        return last

    def register_join_callbacks(self, begins: Callable[[], None], ends: Callable[[], None]) -> None:
        """Register callbacks for ``join``: ``begins`` runs before this rank joins, ``ends`` when
        all ranks have joined, but not if ``join`` fails.
        """
        self._joining.append((begins, ends))

    def poll(self, handle: int) -> bool:
        """Return whether the request is done, so that ``wait(handle)`` would return immediately.

        Raises ``ValueError`` if there is no such handle.
        """
        with self._lock:
            pending = self._requests.find(handle)
            return pending.done and (pending.finished is None or pending.finished.poll())

    @mark_collective("a collective")
    def wait(self, handle: int) -> tuple[torch.Tensor, ...]:
        """Wait for a request and return its outputs, on a GPU too; each handle can be used once.

        Raises:
            HorovodInternalError: ranks disagree, one is lost, or the runtime was shut down.
            ValueError: there is no such handle.
        """
        return self._wait_for_request(handle, registered=False)

    def list_pending(self) -> list[Waits]:
        """Return the requests that some ranks have submitted and others have not: name, kind, age
        in seconds and missing ranks. Empty on ranks other than 0, which do not know them.
        """
        with self._lock:
            return self._lead.list_pending()

    def make_failure(self, error: TransportError) -> HorovodInternalError:
        """Return the exception to raise for an error of a transport. Waits briefly for a report
        that a rank is lost, so that the message can name it.
        """
        self._news.wait(_NEWS_S)
        with self._lock:
            reason = self._failed or self._leaving
        if reason is None:
            reason = f"Rank {self.rank}: {error}"
            self.fail_all(reason)
        return HorovodInternalError(reason)

    def fail(self, reason: str) -> None:
        """Fail all pending and later requests with ``HorovodInternalError(reason)``."""
        with self._lock:
            if self._failed is None and self._over.is_set():
                return
            # Done again if it has failed before: an interrupt may have ended that half way.
            self._failed = self._failed or reason
            self._queue.clear()
            self._requests.give_up(self._failed)
            self._wake_waiters()
        self._news.set()
        self._over.set()
        self._execution.abort(self._failed)

    def fail_all(self, reason: str) -> None:
        """Fail as ``fail`` does, on all ranks."""
        self._control.send(0, "fail", reason)
        self.fail(reason)

    def check(self) -> None:
        """Raise ``HorovodInternalError`` if a rank is lost or the runtime was shut down."""
        if self._failed is not None or self._leaving is not None:
            raise HorovodInternalError(self._failed or self._leaving)

    def begin_step(self, channel: int, step: int) -> None:
        """Record that this rank has started the exchange step ``step`` of the channel number
        ``channel``.

        Rank 0 is informed only while some rank waits in ``join``.
        """
        self.check()
        self._progress.begin_step(channel, step)
        if self._progress.reporting:
            with self._lock:
                self._lead.begin_step(channel, step)

    def on_joined(self, channel: int, callback: StepCallback | None) -> None:
        """Register a callback by which this rank, while it waits in ``join``, takes part in
        exchange steps of the channel; None removes the callback.
        """
        with self._lock:
            self._stand_in.register(channel, callback)

    def close(self, reason: str) -> None:
        """Shut down: requests in progress on all ranks are completed, new ones are rejected.
        ``reason`` is appended to the error message that other ranks get.
        """
        with self._lock:
            ends = self._failed is not None or self._leaving is not None
        if not ends:
            self._control.send(
                0, "leave", f"Horovod has been shut down by rank {self.rank}{reason}."
            )
        self._over.wait(_LEAVE_S)
        with self._lock:
            self._leaving = self._leaving or "Horovod has been shut down."
            self._over.set()
            self._queue.clear()
            self._requests.give_up(self._leaving)
            self._wake_waiters()
        self._lead.close()
        self.limit.close()
        self._stand_in.close(_LEAVE_S)
        worker = self._worker
        if worker is not None and worker.is_alive() and worker is not threading.current_thread():
            worker.join(_LEAVE_S)

    # Waiting

    # A signal handler may raise at any point of these methods. So a thread holds the lock only
    # within ``with`` blocks, and never waits in one.

    def _wait_for_request(self, handle: int, registered: bool) -> Any:
        begun_ns = time.monotonic_ns()
        me = threading.get_ident()
        with self._lock:
            pending = self._requests.find(handle)
            if not registered:
                self._waiting += 1
                abandoned_collectives.set_awaited_request(pending.key)
            wait = self._waits[me] = Wait(pending, begun_ns)
        try:
            while not pending.done:
                self._make_progress(wait)
        finally:
            with self._lock:
                self._stop_reading()
                self._waiting -= 1
                self._waits.pop(me, None)
                if self._blocked:
                    self._blocked = False
                    self._lead.report_blocked(None)
                if self._waiting or self._queue:
                    self._wake_waiters()
                if pending.done:
                    self._requests.forget(handle)
        self._execution.record_wait(begun_ns)
        if pending.error is not None:
            raise HorovodInternalError(pending.error)
        if pending.finished is not None:
            pending.finished.wait(pending.result)
            if self._failed is not None:  # an aborted collective also ends on the GPU
                raise HorovodInternalError(self._failed)
        abandoned_collectives.set_awaited_request(None)
        return pending.result

    def _make_progress(self, wait: Wait) -> None:
        """Execute a response, or else receive messages or sleep until something has changed. The
        thread reads messages itself, which saves waking another.
        """
        me = threading.get_ident()
        patience_s: float | None = None
        enters = reads = False
        with self._lock:
            if wait.pending.done:
                return
            task = self._next_task()
            if task is not None:
                self._stop_reading()
            else:
                if not self._blocked:
                    # Counted from the beginning: messages for other requests may always arrive.
                    patience_s = BLOCKED_S - (time.monotonic_ns() - wait.begun_ns) / 1e9
                    if patience_s <= 0:
                        if self._report_blocked(wait.pending.key):
                            return
                        patience_s = BLOCKED_S
                if self._control.size > 1 and self._reader in {None, me}:
                    enters, reads = self._reader is None, self._reader == me
                    self._reader = me
        if task is not None:
            self._execute_task(task)
        elif reads:
            self._control.read(-1 if patience_s is None else patience_s)
        elif not enters:
            wait.sleep(patience_s)
        elif not self._control.begin_reading():
            with self._lock:
                self._reader = None
            wait.sleep(patience_s)

    def _stop_reading(self) -> None:
        if self._reader == threading.get_ident():
            self._reader = None
            self._control.end_reading()

    def _report_blocked(self, key: RequestKey) -> bool:
        """Inform rank 0 that this rank is blocked, and return True, if every thread of the program
        waits for a collective. Otherwise return False, because another thread may still submit a
        request.
        """
        waits = {thread for thread, wait in self._waits.items() if not wait.pending.done}
        if not self._release_task() or any(
            thread.ident not in waits
            for thread in threading.enumerate()
            if not thread.name.startswith(_OWN_THREADS)
        ):
            return False
        self._blocked = True
        self._lead.report_blocked(key)
        return True

    def _wake_waiters(self) -> None:
        """Wake a waiting thread of the program, or else the engine's thread, to execute queued
        responses. Called with the lock held.
        """
        if self._waiting:
            for wait in self._waits.values():
                wait.wake()
            if self._reader is not None and self._reader != threading.get_ident():
                self._control.interrupt_read()
            if self._failed is None and self._leaving is None:
                return
        if self._worker is None and self._queue:
            self._worker = threading.Thread(target=self._run_loop, name="aitne-engine", daemon=True)
            self._worker.start()
        self._work.notify_all()

    # Execution

    def _run_loop(self) -> None:
        while True:
            with self._lock:
                while (task := self._next_task()) is None:
                    if not self._queue and (self._failed is not None or self._over.is_set()):
                        return
                    self._work.wait()
            self._execute_task(task)

    def _next_task(self) -> ExecutionTask | None:
        """Return the next queued response, which the caller must execute; None if there is none, or
        another thread executes one.
        """
        if self._busy or not self._queue:
            return None
        self._busy = True
        return self._queue.popleft()

    def _execute_task(self, task: ExecutionTask) -> None:
        error: str | None = None
        results: list[Any] = []
        finished: CompletionEvent | None = None
        try:
            results, finished = execute_task(self._execution, task)
        except TransportError as failure:
            error = str(self.make_failure(failure))
        except UnsupportedError as failure:
            # The same on every rank, before any exchange: the transport is still usable.
            error = f"{task.item.kind}: {failure}"
        except BaseException as failure:
            if abandoned_collectives.is_in_call() and abandoned_collectives.is_foreign(failure):
                raise  # the thread leaves its call, which breaks the run
            # Others may wait for this rank inside the transport, which is unusable now.
            log.exception("A collective failed on rank %d", self.rank)
            error = f"Rank {self.rank} could not do its part of {task.item.kind}: {failure}"
            self.fail_all(error)
        with self._lock:
            self._busy = False
            for at, pending in enumerate(task.pendings):
                if pending is not None and not pending.done:
                    self._requests.finish(
                        pending, results[at] if results else None, finished, error
                    )
            self._lead.report_idle()
            self._report_drained()
            if self._waiting:
                self._wake_waiters()

    # Messages of rank 0

    def _release_task(self) -> bool:
        return not self._busy and not self._queue

    def _accept_response(self, message: list[Any]) -> None:
        if self._failed is not None:
            return
        self._blocked = False
        task, error = self._requests.match_response(message)
        if error is not None:
            for pending in task.pendings:
                if pending is not None and not pending.done:
                    self._requests.finish(pending, None, None, error)
        else:
            self._queue.append(task)
        self._wake_waiters()

    def _join_step(self, channel: int, step: int) -> None:
        """Take part with zeros in a step that other ranks have started while this rank waits in
        ``join``.
        """
        self._progress.begin_step(channel, step)
        self._stand_in.queue_step(channel, step)

    def _stop_joined_proxy(self, reason: str, news: bool) -> None:
        if news:
            self.fail_all(f"Rank {self.rank}: {reason}")
        else:
            self.fail(reason)

    def _on_response(self, _sender: int, message: Any) -> None:
        with self._lock:
            self._accept_response(message)

    def _on_step(self, _sender: int, message: Any) -> None:
        channel, step = message
        with self._lock:
            self._join_step(channel, step)

    # Shutdown

    def _on_step_stall(self, waited_s: float) -> None:
        self.fail_all(
            f"Stalled for too long: rank {self.rank} has waited for other ranks in an optimizer's step "
            f"for {waited_s:.0f} s."
        )

    def _on_lost_rank(self, rank: int, reason: str) -> None:
        self.fail(f"Rank {rank} is gone: {reason}.")

    def _on_shutdown(self, _sender: int, reason: str) -> None:
        with self._lock:
            self._leaving = self._leaving or reason
            self._report_drained()
            self._wake_waiters()
        self._news.set()

    def _report_drained(self) -> None:
        """Report to rank 0 that all responses sent before a shutdown are executed; requests that
        remain fail.
        """
        if self._leaving is None or self._drained_reported or not self._release_task():
            return
        self._drained_reported = True
        self._requests.give_up(self._leaving)
        self._lead.report_drained()
