"""ipyparallel's engine and kernel as a rank uses them: with bounded output, values without pickle,
and an answer to the question where a cell is.

Only an engine imports this module, after it has forked the controller and the monitor.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import platform
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from types import FrameType
from typing import Any

from ipykernel.compiler import get_tmp_directory
from ipykernel.iostream import OutStream
from ipyparallel.engine import app as module
from ipyparallel.engine.kernel import IPythonParallelKernel
from traitlets import Type

from aitne_train.notebook import value_encoding
from aitne_train.notebook.cell_communication_profile import CellCommunication
from aitne_train.notebook.output_limit import RICH, OutputLimit
from aitne_train.notebook.rank_connections import RankConnections, clear_distributed_frames

_STOP_S = 0.3
_MOST_LINE = 200
_EXCHANGES = ("aitne_train", "torch.distributed", "torch.nn.parallel", "torch.autograd")
"""Modules whose functions may wait for other ranks; a backward pass exchanges gradients."""


def serve_cells(
    rank: int, info: Mapping[str, Any], profile: str, limit: OutputLimit, missed: int
) -> None:
    """Execute cells until the rank is asked to end.

    Args:
        rank: number of this engine.
        info: content of ``engine.json``.
        profile: folder for ipyparallel's profile.
        limit: bound on the output of a cell.
        missed: heartbeats of the controller that may be missed before the engine ends.
    """
    RankKernel.limit = limit
    BoundedStream.limit = limit
    module.Kernel = RankKernel
    app = Engine.instance()
    app.connection_info_env = json.dumps(info)  # not from the environment, which cells can read
    app.initialize(
        [
            f"--IPEngine.id={rank}",
            f"--profile-dir={profile}",
            "--IPEngine.timeout=60",
            "--IPEngine.enable_nanny=False",
            f"--IPEngine.max_heartbeat_misses={missed}",
            "--log-level=CRITICAL",
        ]
    )
    with contextlib.suppress(RuntimeError):  # a cell that calls exit() stops the loop
        app.start()


class BoundedStream(OutStream):
    """Standard output or error of a rank. Text beyond the limit is not sent to the kernel."""

    limit: OutputLimit

    def write(self, text: str) -> int:
        """Print ``text``, and return its length. Text beyond the limit is written to the rank's
        file."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        allowed = self.limit.limit_text(text)
        if allowed:
            super().write(allowed)
        return len(text)


class Engine(module.IPEngine):
    """ipyparallel's engine, except that SIGTERM ends it with exit code 0 without waiting for the
    running cell."""

    out_stream_factory = Type(BoundedStream)

    def _signal_stop(self, _number: int, _frame: FrameType | None) -> None:
        # The last output is sent by other threads meanwhile.
        stop = threading.Timer(_STOP_S, os._exit, [0])
        stop.daemon = True
        stop.start()


class _NoOutputs(defaultdict[int, list[Any]]):
    """Store of the outputs of cells that discards all of them."""

    def __missing__(self, _cell: int) -> list[Any]:
        return []


class RankKernel(IPythonParallelKernel):
    """Kernel of a rank."""

    limit: OutputLimit

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.shell_handlers["push_request"] = self.push_request
        self.shell_handlers["pull_request"] = self.pull_request
        self.shell_handlers["reconnect_request"] = self.reconnect_request
        self.control_handlers["where_request"] = self.where_request
        self.control_handlers["connections_request"] = self.connections_request
        self.control_handlers["disconnect_request"] = self.disconnect_request
        self._connections = RankConnections()
        # As it comes, IPython keeps all that cells have ever printed and shown.
        self.shell.history_manager.outputs = _NoOutputs()
        self._cells_in = get_tmp_directory()
        self._communication = CellCommunication()
        self._bound_rich_output()

    async def _abort_queues(self, *_arguments: Any, **_named: Any) -> None:
        """Do nothing. The overridden method discards cells that arrive while an error is
        handled."""

    async def do_execute(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Execute a cell. Add to the reply the profile of its communication (``communication``),
        and the size and file of its text beyond the limit (``cut``), if there are any."""
        self.limit.begin_cell()
        self._communication.begin_cell()
        reply: dict[str, Any] = await super().do_execute(*arguments, **named)
        if reply["status"] == "error":
            clear_distributed_frames(getattr(sys, "last_value", None))
        if communication := self._communication.end_cell():
            reply = {**reply, "communication": communication}
        sys.stdout.flush()
        sys.stderr.flush()
        cut = self.limit.end_cell()
        return {**reply, "cut": cut} if cut else reply

    def push_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Set variables to the values in a message."""
        try:
            for name, description in parent["content"]["values"].items():
                self.shell.user_ns[name] = value_encoding.decode_value(
                    description, parent["buffers"]
                )
            content: dict[str, Any] = {"status": "ok"}
        except value_encoding.ValueTransferError as error:
            content = {"status": "error", "message": str(error)}
        self._send_answer("push_reply", stream, ident, parent, content)

    def pull_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Send the values of variables."""
        request = parent["content"]
        encoder = value_encoding.Encoder(
            same_python=platform.python_version_tuple()[:2] == tuple(request["python"])
        )
        try:
            missing = [name for name in request["names"] if name not in self.shell.user_ns]
            if missing:
                raise value_encoding.ValueTransferError(f"{missing[0]} is not defined")
            encoded = {
                name: encoder.encode_value(self.shell.user_ns[name], name)
                for name in request["names"]
            }
            content: dict[str, Any] = {"status": "ok", "values": encoded}
        except value_encoding.ValueTransferError as error:
            content = {"status": "error", "message": str(error)}
            encoder.buffers.clear()
        self._send_answer("pull_reply", stream, ident, parent, content, encoder.buffers)

    def where_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Reply with the line number and source text that the main thread is executing, the name of
        the innermost called function, and whether the thread may wait for other ranks in it. Runs
        on the control thread.

        ``line`` is None if no cell is running.
        """
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        self._send_answer("where_reply", stream, ident, parent, self._find_place(frame))

    def connections_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Send the state of the connections to other ranks. Runs on the control thread."""
        self._send_answer(
            "connections_reply", stream, ident, parent, self._connections.describe_state()
        )

    def disconnect_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Let the collectives of this rank fail. Runs on the control thread."""
        self._connections.release(parent["content"]["reason"])
        self._send_answer("disconnect_reply", stream, ident, parent, {})

    def reconnect_request(self, stream: Any, ident: Any, parent: Mapping[str, Any]) -> None:
        """Connect this rank to the others again, as all ranks do."""
        content: dict[str, Any] = {"status": "ok"}
        try:
            self._connections.connect(parent["content"])
        except Exception as error:  # noqa: BLE001 - the packages raise many classes
            content = {"status": "error", "message": f"{type(error).__name__}: {error}"}
        self._send_answer("reconnect_reply", stream, ident, parent, content)

    def _find_place(self, frame: FrameType | None) -> dict[str, Any]:
        innermost = frame
        exchanges = False
        while frame is not None and not frame.f_code.co_filename.startswith(self._cells_in):
            exchanges = exchanges or frame.f_globals.get("__name__", "").startswith(_EXCHANGES)
            frame = frame.f_back
        if frame is None or innermost is None:
            return {"line": None}
        called = "" if innermost is frame else innermost.f_code.co_qualname
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        return {
            "line": frame.f_lineno,
            "text": text[:_MOST_LINE],
            "called": called,
            "exchanges": exchanges,
        }

    def _send_answer(
        self,
        kind: str,
        stream: Any,
        ident: Any,
        parent: Mapping[str, Any],
        content: Mapping[str, Any],
        buffers: list[Any] | None = None,
    ) -> None:
        metadata = self.init_metadata(parent) | {"status": content.get("status", "ok")}
        self.session.send(
            stream, kind, content, parent=parent, ident=ident, buffers=buffers, metadata=metadata
        )

    def _bound_rich_output(self) -> None:
        send = self.session.send

        def bounded(
            stream: Any, message: Any, content: Any = None, *others: Any, **named: Any
        ) -> Any:
            if isinstance(message, dict) and message.get("msg_type") in RICH:
                message = {**message, "content": self.limit.limit_rich(message["content"])}
            elif message in RICH:
                content = self.limit.limit_rich(content)
            return send(stream, message, content, *others, **named)

        self.session.send = bounded
