"""Ranks of a session, or of a notebook that runs as a job: on the first node beside the app, which
is JupyterLab or the program that runs the notebook, on each other node under an agent of their own.

Their end does not end the app: the agent reports why they ended, and the app continues. The end of
the app ends them. Files in the shared folder of ``ranks`` state how each node ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from aitne.agent import multi_node_run, untrusted_files
from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable, Sequence

STOP = "stop"
"""File in the folder of the ranks that asks ``aitne-run`` to end the ranks beside the app."""
_LOOK_S = 0.5
_TERM_S, _KILL_S, _LEAVE_S = 6.0, 12.0, 20.0
"""Seconds after the first end until the other nodes' agents are asked to end, until they are
killed, and until the reason is reported all the same."""
_MOST_BYTES = 4_096


class RanksBesideApp:
    """Ranks beside an app, from the start of the app to its end.

    Args:
        spec: description of the session or job.
        programs: programs of the agent, among which are the agents of the other nodes.
        reporter: reports why the ranks have ended.
        say: writes a sentence to the log.
    """

    def __init__(
        self, spec: Spec, programs: Programs, reporter: Reporter, say: Callable[[str], None]
    ) -> None:
        self._spec = spec
        self._programs = programs
        self._reporter = reporter
        self._say = say
        self._app = "session" if spec.apps else "notebook"
        self._nodes: set[int] = set()
        """PIDs of the programs that run the other nodes' agents."""
        self._node_ended = threading.Event()
        self._app_ended = threading.Event()

    def argv(self, app: Sequence[str]) -> list[str]:
        """Complete the command ``app``, which starts the app and the ranks of this node, with the
        folder of the ranks and the number of the node. Raises ``OSError`` if the folder cannot be
        created."""
        return multi_node_run.prepare_rank_command(self._spec, 0, app)

    def start(self) -> None:
        """Start the agents of the other nodes, and the thread that reports the end of the ranks."""
        try:
            for argv, environment in multi_node_run.other_nodes(self._spec):
                pid = self._programs.start(argv, environment=environment, direct=True)
                self._nodes.add(pid)
        except OSError as error:
            self._say(f"srun cannot be started: {error.strerror}. The {self._app} has no ranks")
            self._node_ended.set()
        threading.Thread(target=self._report_ranks_end, name="ranks", daemon=True).start()

    def wait(self, app_pid: int) -> int:
        """Wait until the app has ended, then end the other nodes' agents. Return the app's exit
        code, as ``Programs.wait`` does."""
        while True:
            pid, code = self._programs.wait_any({app_pid, *self._nodes})
            if pid == app_pid:
                break
            self._nodes.discard(pid)
            self._node_ended.set()
        self._app_ended.set()
        self._programs.send_signal(signal.SIGTERM)
        killer = threading.Timer(_TERM_S, self._programs.send_signal, (signal.SIGKILL,))
        killer.daemon = True
        killer.start()
        while self._nodes:
            self._nodes.discard(self._programs.wait_any(self._nodes)[0])
        killer.cancel()
        return code

    def _report_ranks_end(self) -> None:
        """Report the end of the ranks, unless the app ends first."""
        own_end = f"{self._spec.run_dir}/ended-0.json"
        while not (self._node_ended.is_set() or os.path.exists(own_end)):
            if self._app_ended.wait(_LOOK_S):
                return
        asked = not os.path.exists(own_end)
        if asked:
            with contextlib.suppress(OSError), open(f"{self._spec.run_dir}/{STOP}", "wb"):
                pass
        began, due = time.monotonic(), [(_TERM_S, signal.SIGTERM), (_KILL_S, signal.SIGKILL)]
        while self._nodes or not os.path.exists(own_end):
            waited_s = time.monotonic() - began
            if waited_s > _LEAVE_S:
                break
            if due and waited_s > due[0][0]:
                self._programs.send_signal(due.pop(0)[1], self._nodes)
            if self._app_ended.wait(_LOOK_S / 5):
                return
        sentence = f"{self._find_end_reason(own_end, asked=asked)}. The {self._app} continues without ranks"
        self._say(sentence)
        self._reporter.queue_ranks_end(sentence)

    def _find_end_reason(self, own_end: str, *, asked: bool) -> str:
        """Return the reason for the end of the ranks, as a sentence without full stop.

        Args:
            own_end: file with the exit code of this node's ranks; it may be missing.
            asked: whether the ranks of this node were asked to end because those of another node
                had ended.
        """
        record = untrusted_files.read_json_object(own_end, _MOST_BYTES)
        code = None if record is None else record[1].get("exit_code")
        if isinstance(code, int):
            with contextlib.suppress(OSError):
                multi_node_run.write_node_outcome(self._spec, code, None, None, asked)
        outcome = multi_node_run.decide_outcome(self._spec, code if isinstance(code, int) else 1)
        if outcome.message is not None:
            return outcome.message[:1].upper() + outcome.message[1:]
        lost = multi_node_run.list_lost_nodes(self._spec)
        if lost:
            names, verb = ", ".join(lost), "was" if len(lost) == 1 else "were"
            return f"{'Node' if len(lost) == 1 else 'Nodes'} {names} {verb} lost, with the ranks"
        if outcome.code:
            return f"The ranks ended with exit code {outcome.code}"
        return "The ranks have ended"
