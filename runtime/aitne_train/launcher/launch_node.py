"""One node's part of a run: starts its ranks when the coordinator orders it, and reports how they
end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time

from aitne_train.launcher import rank_processes, rendezvous_store_client, slurm_task_variables
from aitne_train.launcher.cleanup_process import CleanupProcess
from aitne_train.launcher.held_ports import HeldPort
from aitne_train.launcher.launch_coordinator import extract_traceback
from aitne_train.launcher.output_relay import print_message
from aitne_train.launcher.own_addresses import build_interface_variables
from aitne_train.launcher.rank_detection import lay_out_ranks

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from aitne_train.launcher.binding import NodeBinding

KILL_S = 5.0
"""Seconds that ranks have to end after another one has failed, before they are killed."""
_LOOK_S = 0.001
"""Seconds between two looks for foreign listeners while ranks start."""


class LaunchNode:
    """One node of a run, which carries out the coordinator's orders for its ranks. All methods are
    called on the launcher's main thread.

    Args:
        index: number of this node.
        name: name of this node.
        ranks: number of ranks of each node.
        argv: program and arguments of every rank.
        environ: environment variables on which those of the ranks are based.
        store: client of the rendezvous store.
        master: address under which ranks reach the first node.
        run_id: id of this run, by which its processes are found.
        run_dir: a folder to which all ranks of this node can write.
        keeper: cleanup process of the launcher.
        report: sends a message to the coordinator.
        bind: what ranks are bound to: ``auto``, ``cores`` or ``off`` (``launch.binding``).
        on_ended: called from another thread with the number of the start, a rank and its exit code;
            must cause a call of ``rank_ended`` on the main thread.
    """

    def __init__(
        self,
        index: int,
        name: str,
        ranks: Sequence[int],
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        store: rendezvous_store_client.RendezvousClient,
        master: str,
        run_id: str,
        run_dir: str,
        keeper: CleanupProcess,
        report: Callable[[dict[str, Any]], None],
        on_ended: Callable[[int, int, int], None],
        prefix: bool,
        bind: str,
    ) -> None:
        self._index = index
        self._name = name
        self._layout = list(ranks)
        self._worlds = lay_out_ranks(ranks)
        self._alone = len(ranks) == 1
        self._own = range(sum(ranks[:index]), sum(ranks[: index + 1]))
        self._argv = list(argv)
        self._environ = dict(environ)
        self._store = store
        self._master = master
        self._run_id = run_id
        self._run_dir = run_dir
        self._keeper = keeper
        self._report = report
        self._ended = on_ended
        self._prefix = prefix
        self._bind = bind
        self._ranks: rank_processes.RankProcesses | None = None
        self._left: set[int] = set()
        self._generation = 0
        self._kill_at: float | None = None
        self._signals: list[int] = []
        self._port: HeldPort | None = None
        """``MASTER_PORT`` of the ranks, which the first node holds."""

    @property
    def deadline(self) -> float | None:
        """Time (``time.monotonic``) at which ``tick`` must be called next; None if no call is
        required."""
        times = (self._kill_at, None if self._port is None else self._port.next_look)
        return min((each for each in times if each is not None), default=None)

    def handle_order(self, message: Mapping[str, Any]) -> None:
        """Carry out an order of the coordinator: ``prepare``, ``start``, ``stop_ranks``, ``signal`` or
        ``mark``."""
        kind = message["kind"]
        if kind == "prepare":
            self._port = HeldPort(_LOOK_S)
            port = self._port.number
            self._report({"kind": "port", "port": port, "generation": message["generation"]})
        elif kind == "start":
            self._start_ranks(int(message["generation"]), int(message["port"]))
        elif kind == "stop":
            self.stop_ranks()
        elif kind == "signal":
            # A scheduler may have sent it to this node too; programs treat a second one as urgent.
            if message["number"] not in self._signals:
                self.signal_ranks(int(message["number"]))
        elif kind == "mark":
            self._write_failure(message["rank"], int(message["code"]), message.get("message"))

    def stop_ranks(self) -> None:
        """Ask the ranks to end with SIGTERM. ``tick`` kills those that have not ended after
        ``KILL_S`` seconds."""
        if self._ranks is not None and self._kill_at is None and self._left:
            self._ranks.signal_ranks(signal.SIGTERM)
            self._kill_at = time.monotonic() + KILL_S

    def tick(self, now: float) -> None:
        """Kill the ranks that were asked to end, if their time is over at ``now``
        (``time.monotonic``), or all ranks of this node if another account listens on their
        ``MASTER_PORT``."""
        due = None if self._port is None else self._port.next_look
        if due is not None and now >= due:
            self._check_port()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            if self._ranks is not None:
                self._ranks.signal_ranks(signal.SIGKILL)

    def signal_ranks(self, number: int) -> None:
        """Send the signal ``number`` to all ranks of this node."""
        self._signals.append(number)
        if self._ranks is not None:
            self._ranks.signal_ranks(number)

    def rank_ended(self, generation: int, rank: int, code: int) -> None:
        """Record and report that the rank ``rank`` of this node has ended with the exit code
        ``code``.

        ``generation`` is the number of the start to which the rank belongs, counted by the
        coordinator. Ranks of an earlier start are ignored.
        """
        if self._ranks is None or generation != self._generation:
            return
        self._left.discard(rank)
        if code:
            self._check_port()  # a rank may have failed because another account listens on the port
        self._report_rank(
            rank, code, extract_traceback(self._ranks.last_lines(rank)) if code else ()
        )
        if not self._left:
            self.clean_up()
            self._report({"kind": "ended", "generation": generation})

    def clean_up(self) -> None:
        """Kill the remaining processes of the ranks and release their resources."""
        if self._ranks is not None:
            if self._left:
                self._ranks.signal_ranks(signal.SIGKILL)
            self._ranks.clean_up()
        self._ranks, self._kill_at = None, None
        self._release_port()

    def _check_port(self) -> None:
        """Kill the ranks of this node and report it if another account listens on their
        ``MASTER_PORT``."""
        if self._port is None or self._port.next_look is None:
            return
        uid = self._port.find_foreign_uid()
        if uid is None:
            return
        if self._ranks is not None:
            self._ranks.signal_ranks(signal.SIGKILL)
        self._release_port()
        self._report({"kind": "foreign", "generation": self._generation, "uid": uid})

    def _release_port(self) -> None:
        if self._port is not None:
            self._port.close()
        self._port = None

    def _start_ranks(self, generation: int, port: int) -> None:
        self._generation = generation
        self._left = set(self._own)
        with contextlib.suppress(OSError):  # it does not exist, or is not a file
            os.unlink(os.path.join(self._run_dir, self._failure_file))  # of the previous ranks
        variables = {
            rendezvous_store_client.ADDRESSES: ",".join(self._store.addresses),
            rendezvous_store_client.TOKEN: self._store.token,
            rendezvous_store_client.PREFIX: f"{generation}/",
            "MASTER_ADDR": self._master,
            "MASTER_PORT": str(port),
            "AITNE_RUN_DIR": self._run_dir,
            "AITNE_RUN_RESTARTS": str(
                int(self._environ.get("AITNE_RUN_RESTARTS") or 0) + generation
            ),
        }
        bound = self._plan_bindings()
        self._write_run_file(
            f"bindings-{self._index}.json",
            {
                "bindings": [
                    each.to_json(rank, self._name)
                    for rank, each in zip(self._own, bound.ranks if bound else ())  # noqa: B905 (3.9)
                ]
            },
        )
        environ = self._environ
        if not self._alone:
            environ = {**build_interface_variables(environ), **environ}
        environments = {
            rank: rank_processes.build_environment(
                slurm_task_variables.build_rank_environment(
                    environ, self._worlds[rank], self._index, self._layout
                ),
                self._run_id,
                len(self._own),
                {
                    **rank_processes.build_rank_variables(self._worlds[rank], self._index),
                    **variables,
                    **(bound.variables if bound else {}),
                },
            )
            for rank in self._own
        }
        self._ranks = rank_processes.RankProcesses(
            self._keeper, lambda rank, code: self._ended(generation, rank, code)
        )
        if self._port is not None:
            self._port.open_to_program()
        try:
            self._ranks.start(
                self._argv,
                environments,
                prefix=self._prefix,
                cpus=[each.cpus for each in bound.ranks if each.cpus] if bound else (),
                stdin_rank=0,
            )
        except rank_processes.NotStarted as error:
            self._report_rank(self._own[0], error.code, [str(error)])
            self._left = set()
            self.clean_up()
            self._report({"kind": "ended", "generation": generation})
            return
        for number in self._signals:
            self._ranks.signal_ranks(number)  # it arrived while the ranks were being started

    def _plan_bindings(self) -> NodeBinding | None:
        if self._bind == "off":
            return None
        from aitne_train.launcher import binding  # only these runs need it

        return binding.plan_this_node(self._bind, len(self._own), self._environ)

    def _report_rank(self, rank: int, code: int, lines: Sequence[str]) -> None:
        self._report(
            {
                "kind": "rank",
                "generation": self._generation,
                "rank": rank,
                "code": code,
                "lines": list(lines),
            }
        )

    def _write_failure(self, rank: int | None, code: int, message: str | None) -> None:
        """Write the failure of a rank to ``failed-<node>.json``, which the platform reads, with the
        sentence that explains it if there is one. Do nothing if ``rank`` is None."""
        if rank is None:
            return
        facts = {
            "rank": rank,
            "node": self._index,
            "host": socket.gethostname(),
            "exit_code": code,
            "signal": code - 128 if code - 128 in signal.valid_signals() else None,
            "message": message,
        }
        self._write_run_file(self._failure_file, facts)

    @property
    def _failure_file(self) -> str:
        return f"failed-{self._index}.json"

    def _write_run_file(self, name: str, facts: Mapping[str, Any]) -> None:
        """Write a file for the platform to the folder of the run."""
        path = os.path.join(self._run_dir, name)
        if not os.path.isdir(self._run_dir):
            return
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as stream:
                json.dump(facts, stream)
            os.replace(f"{path}.new", path)
        except OSError as error:  # a full disk, for example, which may be why the rank has failed
            print_message(f"{path} cannot be written: {error.strerror}. The run ends normally")
