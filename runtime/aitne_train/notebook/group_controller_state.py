"""State of a rank group in its controller, and the messages that change it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aitne_train.notebook import rank_group_connection_files

_STATUS_S = 1.0
_SAMPLE_S = 1.0
_REQUESTS = ("execute_request", "apply_request", "push_request", "pull_request")
"""Types of the requests that count as work."""
RUN_DIR, RELEASED = "AITNE_RUN_DIR", "released.json"
"""Environment variable with the folder that the ranks share with the agent, and the file there from
which the agent learns that they had no work."""


@dataclass(frozen=True)
class GroupSettings:
    """Settings of a rank group for its controller."""

    group: str
    session: str
    """ID of the session; empty: the group belongs to none."""
    size: int
    """Number of ranks."""
    idle_s: float | None
    """Seconds without work after which the group is released; None: no limit."""
    folder: Path


class GroupState:
    """State of a rank group in its controller.

    Args:
        settings: settings of the group.
        hub: the hub of the controller.
        private: folder of the controller's sockets; removed when all ranks have registered.
    """

    def __init__(self, settings: GroupSettings, hub: Any, private: Path) -> None:
        self._settings = settings
        self._hub = hub
        self._private = private
        self.client: dict[str, Any] = {}
        self.end: Any = None
        self._ranks: dict[int, rank_group_connection_files.Rank] = {}
        self._monitors: dict[int, bytes] = {}
        self._dead: set[int] = set()
        self._busy: dict[int, dict[str, Any]] = {}
        self._worked_at = time.time()
        self._message = ""
        self._ready = False
        self._announced = False
        self._written = 0.0
        self._dirty = True
        self._orders = 0
        self._samples: dict[int, tuple[int, dict[int, Any], asyncio.Event]] = {}

    def list_handlers(self) -> dict[str, Any]:
        """Return the handlers of the messages that ipyparallel does not support, by type."""
        return {
            "node_request": self._on_node,
            "death_request": self._on_death,
            "sample_request": self._on_sample,
            "signal_request": self._on_signal,
            "ranks_request": self._on_table,
            "release_request": self._on_release,
        }

    # --- what the hub notices --------------------------------------------------------------------

    def record_activity(self, message: Mapping[str, Any]) -> None:
        """Note that an engine has begun or ended a request."""
        parent = message.get("parent_header") or {}
        if parent.get("msg_type") not in _REQUESTS:
            return
        engine = str(message["metadata"].get("engine", "")).encode()
        rank = self._hub.by_ident.get(engine)
        if rank is None:
            return
        self._worked_at = time.time()
        self._announced = False
        if message["content"].get("execution_state") == "busy":
            self._busy[rank] = {"since": time.time(), "client": parent.get("session", "")}
        else:
            self._busy.pop(rank, None)
        self._dirty = True

    def handle_lost_heartbeat(self, rank: int) -> None:
        """Handle a rank that the hub has unregistered because its heartbeats stopped: it is lost."""
        self._busy.pop(rank, None)
        if rank in self._dead:
            return
        # A lost node cannot report; its heartbeats have stopped.
        node = self._ranks[rank].node if rank in self._ranks else "its node"
        self._record_loss(
            rank, f"rank {rank} on {node} no longer answers: its node may be lost", None, None
        )

    def handle_registrations(self) -> None:
        """Handle new registrations of ranks: when all have registered, write the files."""
        if (
            not self._ready
            and len(self._hub.engines) == self._settings.size == len(self._ranks)
            and not self._dead
        ):
            self._ready = True
            self._worked_at = time.time()
            # All sockets in it are connected; nothing of it remains even after SIGKILL.
            shutil.rmtree(self._private, ignore_errors=True)
            rank_group_connection_files.write_file(
                self._settings.folder,
                rank_group_connection_files.CLIENT,
                {
                    **self.client,
                    "group": self._settings.group,
                    "session": self._settings.session,
                    "ranks": [asdict(self._ranks[rank]) for rank in sorted(self._ranks)],
                },
            )
        self._write_status()

    def tick(self) -> None:
        """Write the state if it has changed, and end a group that has been idle for too long."""
        now = time.time()
        idle_s = self._settings.idle_s
        if self._busy:
            self._worked_at = now
        if self._ready and idle_s is not None and not self._message:
            left_s = self._worked_at + idle_s - now
            if left_s <= 0:
                self._note_idle_end(idle_s)
                self._end_group(f"Released after {_format_duration(idle_s)} without work")
            elif left_s <= min(120.0, idle_s / 5) and not self._announced:
                self._announced = True
                self._dirty = True
                self._notify_kernels("idle_notification", {"release_at": self._worked_at + idle_s})
        if self._dirty and now - self._written >= _STATUS_S:
            self._write_status()

    # --- messages of monitors --------------------------------------------------------------------

    def _on_node(self, idents: list[bytes], message: Mapping[str, Any]) -> None:
        content = message["content"]
        for report in content["ranks"]:
            fields = {
                name: report[name] for name in rank_group_connection_files.Rank.__dataclass_fields__
            }
            self._ranks[report["rank"]] = rank_group_connection_files.Rank(**fields)
            self._monitors[report["rank"]] = idents[0]
        self.handle_registrations()

    def _on_death(self, _idents: list[bytes], message: Mapping[str, Any]) -> None:
        content = message["content"]
        rank, number, code = content["rank"], content["signal"], content["code"]
        node = self._ranks[rank].node if rank in self._ranks else "its node"
        how = describe_end(number, code, in_cell=rank in self._busy)
        self._record_loss(rank, f"rank {rank} on {node} {how}", number, code)

    def _record_loss(self, rank: int, text: str, number: int | None, code: int | None) -> None:
        if rank in self._dead:
            return
        self._dead.add(rank)
        if not self._message:
            # Ranks that are asked to end between cells end as planned, which is no news for a log.
            self._end_group(text, in_log=code != 0 or rank in self._busy)
        self._notify_kernels(
            "death_notification", {"rank": rank, "signal": number, "code": code, "text": text}
        )
        self._hub.unregister_engine([b"monitor"], {"content": {"id": rank}})
        self._dirty = True
        if len(self._dead) == self._settings.size and self.end is not None:
            self._notify_kernels("end_notification", {"message": self._message})
            self._hub.loop.call_later(0.2, self.end)

    def _on_sample(self, _idents: list[bytes], message: Mapping[str, Any]) -> None:
        content = message["content"]
        if content["order"] in self._samples:
            awaited, found, done = self._samples[content["order"]]
            found.update({int(rank): sample for rank, sample in content["ranks"].items()})
            if len(found) >= awaited:
                done.set()

    # --- requests of kernels ---------------------------------------------------------------------

    def _on_signal(self, idents: list[bytes], message: Mapping[str, Any]) -> None:
        content = message["content"]
        number = int(content["number"])
        if number not in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            raise ValueError(f"signal {number} is not one that kernels may send")
        if number != signal.SIGINT and not self._message:
            self._end_group("Ended by a second interrupt", stop=False)
        self._order_signal(number, content["ranks"])
        self._reply("signal_reply", {"ranks": content["ranks"]}, idents, message)

    def _on_release(self, idents: list[bytes], message: Mapping[str, Any]) -> None:
        self._end_group("Released")
        self._reply("release_reply", {}, idents, message)

    async def _on_table(self, idents: list[bytes], message: Mapping[str, Any]) -> None:
        samples: dict[int, Any] = {}
        if message["content"].get("memory"):
            samples = await self._sample_memory()
        now = time.time()
        rows = [
            {
                **asdict(rank),
                "busy_s": now - self._busy[number]["since"] if number in self._busy else None,
                "client": self._busy[number]["client"] if number in self._busy else None,
                "memory": samples.get(number, {}).get("memory"),
                "gpu_memory": samples.get(number, {}).get("gpu_memory"),
            }
            for number, rank in sorted(self._ranks.items())
            if number not in self._dead
        ]
        self._reply(
            "ranks_reply", {"ranks": rows, "status": asdict(self.build_status())}, idents, message
        )

    async def _sample_memory(self) -> dict[int, Any]:
        """Request the memory use of all ranks from the monitors, and return it by rank. Ranks whose
        monitor does not answer within ``_SAMPLE_S`` seconds are omitted."""
        alive = [rank for rank in self._monitors if rank not in self._dead]
        if not alive:
            return {}
        self._orders += 1
        order, done = self._orders, asyncio.Event()
        found: dict[int, Any] = {}
        self._samples[order] = (len(alive), found, done)
        for monitor in {self._monitors[rank] for rank in alive}:
            self._hub.session.send(
                self._hub.query, "sample_order", {"order": order}, ident=[monitor]
            )
        try:
            await asyncio.wait_for(done.wait(), _SAMPLE_S)
        except TimeoutError:
            pass  # the monitor of a lost node
        finally:
            del self._samples[order]
        return found

    # --- the state -------------------------------------------------------------------------------

    def build_status(self) -> rank_group_connection_files.Status:
        """Return the state of the group."""
        idle_s = self._settings.idle_s
        ending = bool(self._message)
        waits = self._ready and idle_s is not None and not self._busy and not ending
        return rank_group_connection_files.Status(
            group=self._settings.group,
            session=self._settings.session,
            state="ending" if ending else "ready" if self._ready else "starting",
            size=self._settings.size,
            registered=len(self._hub.engines),
            busy=tuple(sorted(self._busy)),
            release_at=self._worked_at + idle_s if waits and idle_s is not None else None,
            message=self._message,
        )

    def _end_group(self, message: str, *, stop: bool = True, in_log: bool = True) -> None:
        """Store and report the reason for the end of the group, unless it is already ending. With
        ``stop``, send SIGTERM to the remaining ranks; with ``in_log``, write it to the job's log."""
        if self._message:
            return
        self._message = message
        self._write_status()
        if in_log:
            self._write_outcome(message)
        self._notify_kernels("end_notification", {"message": message})
        if stop:
            self._order_signal(
                signal.SIGTERM, [rank for rank in self._ranks if rank not in self._dead]
            )

    def _note_idle_end(self, idle_s: float) -> None:
        """Write the file from which the agent learns that the group was idle for too long."""
        run_dir = os.environ.get(RUN_DIR)
        if run_dir:
            with contextlib.suppress(OSError):  # a full disk must not keep idle nodes allocated
                rank_group_connection_files.write_file(
                    Path(run_dir), RELEASED, {"idle_s": int(idle_s)}
                )

    def _write_outcome(self, message: str) -> None:
        """Write the reason for the group's end to the job's log (standard error)."""
        os.write(2, f"aitne: {message}\n".encode())

    def _order_signal(self, number: int, ranks: list[int]) -> None:
        for monitor in {self._monitors[rank] for rank in ranks if rank in self._monitors}:
            here = [rank for rank in ranks if self._monitors.get(rank) == monitor]
            self._hub.session.send(
                self._hub.query, "signal_order", {"number": number, "ranks": here}, ident=[monitor]
            )

    def _notify_kernels(self, kind: str, content: Mapping[str, Any]) -> None:
        """Send a message to all kernels."""
        self._hub.session.send(self._hub.notifier, kind, content=dict(content))

    def _reply(
        self,
        kind: str,
        content: Mapping[str, Any],
        idents: list[bytes],
        parent: Mapping[str, Any],
    ) -> None:
        self._hub.session.send(
            self._hub.query, kind, content=dict(content), ident=idents[:1], parent=parent
        )

    def _write_status(self) -> None:
        self._dirty = False
        self._written = time.time()
        rank_group_connection_files.write_status(self._settings.folder, self.build_status())


def describe_end(number: int | None, code: int | None, *, in_cell: bool) -> str:
    """Return how a rank has ended, as the predicate of a sentence.

    Args:
        number: signal that ended it; None: none.
        code: its exit code; None: a signal has ended it, or it is not known.
        in_cell: whether it was executing a cell.
    """
    if number is not None:
        return f"was ended by signal {number} ({_name_signal(number)})"
    if code is None:
        return "has ended"
    if code:
        return f"has ended with exit code {code}"
    if in_cell:
        return "was asked to end during a cell, or the cell has left Python with exit code 0"
    return "was asked to end"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _format_duration(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return "1 minute" if seconds == 60 else f"{seconds / 60:.0f} minutes"
    return f"{seconds:.0f} seconds"
