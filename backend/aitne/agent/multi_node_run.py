"""Distributed programs: one agent on each node, the messages between them, and the failure that
decides the outcome.

The agent of the first node holds the fence and starts the agents of all nodes. Each of them
prepares its node and starts ``aitne-run`` there, which starts the ranks; this is repeated for each
command of the job. They share a folder below the job's own, which all nodes see:
``run/<restart>/``. It contains ``node-<n>.json`` of each agent that has ended, and a folder for
each command (``AITNE_RUN_DIR``), where ``aitne-run`` writes ``failed-<n>.json`` when a rank of its
node fails by itself, and rank 0 its profile.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time

from aitne.agent import untrusted_files
from aitne.agent.attempt_fence import write_private_file
from aitne.agent.program_supervisor import Programs
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

LOCAL_NODES = "AITNE_LOCAL_NODES"
"""Environment variable that the local scheduler sets, whose nodes are one machine: ``[{"node":
"node01", "gpus": [0]}, ...]``."""
_GRACE_S = 5.0
"""Seconds that ranks of other nodes have to end after one has failed, before they are killed."""
_MOST_BYTES = 4_096
_CAUSE_NS = 20 * 10**9
"""Time after a failure in which Slurm kills no agent (KillWait is 30 s): an agent that is lost then
is its cause.
"""
_MOST_LOST = 64
_MOST_NAMED = 8
RELEASED = "released.json"
"""File in the ranks' folder in which rank 0 of a rank group states that the group ends for its idle
time: ``{"idle_s": 900}``."""


class RanksOutcome:
    """Outcome of the ranks of all nodes: exit code, and reason and message if an agent ended
    them."""

    def __init__(
        self,
        code: int,
        reason: str | None = None,
        message: str | None = None,
        stop_requested: bool = False,
        lost_nodes: Sequence[str] = (),
    ) -> None:
        self.code = code
        self.lost_nodes = lost_nodes
        """Names of the nodes whose agents ended without an outcome."""
        self.reason = reason
        self.message = message
        self.stop_requested = stop_requested
        """Whether a signal had asked the ranks to end."""


def prepare_node(spec: Spec, command: int) -> list[str]:
    """Prepare this node for command number ``command`` of the job: create the ranks' folder and set
    their environment variables. Return the argument vector that starts them.

    Raises:
        OSError: the folder cannot be created.
    """
    if spec.ranks is None:
        raise ValueError("this job has no ranks")
    argv = prepare_rank_command(spec, command, spec.commands[command])
    os.environ.update(spec.ranks.env)
    os.environ["AITNE_RUN_DIR"] = str(spec.run_dir)
    os.environ["AITNE_RUN_RESTARTS"] = str(spec.restarts)
    os.environ["AITNE_NODES"] = str(spec.ranks.nodes)
    os.environ["AITNE_NODE_RANK"] = str(spec.node_rank or 0)
    os.environ["AITNE_RANKS_PER_NODE"] = str(spec.ranks.per_node)
    return argv


def prepare_rank_command(spec: Spec, command: int, argv: Sequence[str]) -> list[str]:
    """Create the ranks' folder for command number ``command``, and return the command that starts
    the ranks of this node: ``argv`` with the folder and the number of the node.

    Raises:
        OSError: the folder cannot be created.
    """
    spec.run_dir = f"{run_folder(spec)}/{command}"
    os.makedirs(spec.run_dir, mode=0o700, exist_ok=True)
    placeholders = {"{run_dir}": spec.run_dir, "{node_rank}": str(spec.node_rank or 0)}
    return [placeholders.get(part, part) for part in argv]


def find_rank_failure(spec: Spec) -> str | None:
    """Return a sentence, without full stop, that names the rank of this node that failed; None if
    none did."""
    record = _read_rank_failure(f"{spec.run_dir}/failed-{spec.node_rank or 0}.json")
    return None if record is None else _format_failure(record[1], spec.node)


def find_release_reason(spec: Spec) -> str | None:
    """Return a sentence, without full stop, if the ranks of a rank group ended because they had
    nothing to do, as rank 0 has written to its folder; otherwise None."""
    record = untrusted_files.read_json_object(f"{run_folder(spec)}/0/{RELEASED}", _MOST_BYTES)
    idle_s = None if record is None else record[1].get("idle_s")
    if not isinstance(idle_s, int) or idle_s < 1:
        return None
    units = ((3_600, "hour"), (60, "minute"), (1, "second"))
    unit_s, unit = next(pair for pair in units if idle_s % pair[0] == 0)
    count = idle_s // unit_s
    return f"released after {count} {unit}{'' if count == 1 else 's'} without work"


def write_node_outcome(
    spec: Spec, code: int, reason: str | None, message: str | None, stop_requested: bool
) -> None:
    """Write how the ranks of this node have ended to the shared folder, for the agent of the first
    node. Raises ``OSError``.

    ``stop_requested`` states whether a signal had asked them to end.
    """
    facts = {
        "node": spec.node,
        "exit_code": code,
        "reason": reason,
        "message": message,
        "told": stop_requested,
    }
    _write_json(spec, f"node-{spec.node_rank or 0}.json", facts)


def write_node_name(spec: Spec) -> None:
    """Write the name of this node to the shared folder, so that it can be named if its agent is
    lost. Raises ``OSError``."""
    _write_json(spec, f"arrived-{spec.node_rank}.json", {"node": spec.node, "exit_code": 0})


def _write_json(spec: Spec, name: str, facts: dict[str, Any]) -> None:
    folder = run_folder(spec)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = f"{folder}/{name}"
    write_private_file(f"{path}.new", json.dumps(facts).encode(), os.O_TRUNC)
    os.replace(f"{path}.new", path)


def run_nodes(spec: Spec, programs: Programs, report_start: Callable[[], None]) -> RanksOutcome:
    """Start the agent of every node, call ``report_start``, wait until all have ended, and return the
    outcome.

    Raises:
        OSError: an agent could not be started.
    """
    if spec.ranks is None:
        raise ValueError("this job has no ranks")
    nodes = {
        programs.start(argv, environment=environment): environment.get("SLURMD_NODENAME")
        for argv, environment in _make_agent_commands(spec, range(spec.ranks.nodes))
    }
    report_start()
    pids, one_step = set(nodes), len(nodes) == 1
    worst = 0
    killer = None
    lost: list[str] = []
    while pids:
        pid, code = programs.wait_any(pids)
        pids.remove(pid)
        if code != 0 and worst == 0 and programs.stop_signal is None:
            # Those that end later may have been killed after this one.
            lost = [
                name
                for name in _list_nodes_lost_after_start(spec)
                if one_step or name == nodes[pid]
            ]
        if not (lost and worst):  # the others are ended because of the lost node
            worst = max(worst, code)
        if code != 0 and pids and killer is None:
            programs.send_signal(signal.SIGTERM)
            killer = threading.Timer(_GRACE_S, programs.send_signal, (signal.SIGKILL,))
            killer.daemon = True
            killer.start()
    if killer is not None:
        killer.cancel()
    return decide_outcome(spec, worst, lost)


def _list_nodes_lost_after_start(spec: Spec) -> list[str]:
    """Return the names of the nodes whose agents have begun and left no outcome; empty if the ranks
    failed so long ago that the agents may have been killed for that.
    """
    failures = _list_failures(spec, _read_outcomes(spec))
    if failures and time.time_ns() - min(item[0] for item in failures) > _CAUSE_NS:
        return []
    return [name for _, name in _list_nodes_without_outcome(spec) if name is not None][:_MOST_LOST]


def other_nodes(spec: Spec) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield the commands that start an agent on each node except the first, each with its
    environment variables. Yield nothing if the job has only one node or no ranks."""
    if spec.ranks is not None and spec.ranks.nodes > 1:
        yield from _make_agent_commands(spec, range(1, spec.ranks.nodes))


def list_lost_nodes(spec: Spec) -> list[str]:
    """Return the names of the nodes whose agents have not written an outcome; ``number <n>`` if the
    name is unknown."""
    return [name or f"number {number}" for number, name in _list_nodes_without_outcome(spec)]


def _list_nodes_without_outcome(spec: Spec) -> Iterator[tuple[int, str | None]]:
    """Yield the number and the name of each node whose agent has not written an outcome. The name
    is None if the agent has not started."""
    folder = run_folder(spec)
    for number in range(spec.ranks.nodes if spec.ranks else 0):
        if _read_node_file(f"{folder}/node-{number}.json") is None:
            record = _read_node_file(f"{folder}/arrived-{number}.json")
            yield number, None if record is None else str(record[1].get("node"))


def _make_agent_commands(spec: Spec, nodes: range) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield commands with their environment variables, which together start an agent on each node
    in ``nodes`` (numbers of nodes)."""
    if spec.ranks is None:
        raise ValueError("this job has no ranks")
    pretended = os.environ.pop(LOCAL_NODES, None)
    command = [*spec.ranks.agent, "--node", spec.job_dir]
    if pretended is None:
        yield [*_make_srun_command(nodes), *command], dict(os.environ)
        return
    for variables in _make_node_variables(json.loads(pretended)[nodes.start :]):
        yield command, {**os.environ, **variables}


def _make_srun_command(nodes: range) -> list[str]:
    """Return an ``srun`` command, without the program, that starts one process on each node in
    ``nodes``. These are the last nodes of the allocation.

    The CPUs are passed explicitly, because a step does not inherit them since Slurm 22.05
    (https://slurm.schedmd.com/srun.html).
    """
    count = len(nodes)
    argv = ["srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
    if nodes.start:
        argv.append(f"--relative={nodes.start}")
    cpus = os.environ.get("SLURM_CPUS_PER_TASK", "")
    if cpus.isdecimal():
        argv.append(f"--cpus-per-task={cpus}")
    return [*argv, "--mpi=none", "--input=none", "--kill-on-bad-exit=1", "--quiet"]


def _make_node_variables(nodes: Sequence[dict[str, Any]]) -> Iterator[dict[str, str]]:
    for number, facts in enumerate(nodes):
        variables = {
            "SLURMD_NODENAME": str(facts["node"]),
            "SLURM_NODEID": str(number),
        }
        if facts.get("gpus") is not None:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, facts["gpus"]))
        yield variables


# --- outcome ---------------------------------------------------------------------------------------


def decide_outcome(spec: Spec, code: int, lost: Sequence[str] = ()) -> RanksOutcome:
    """Determine the outcome of a job with ranks from the files that the agents of its nodes wrote.

    Of several failures the earliest one decides, by the modification times of the files.

    Args:
        spec: description of the job.
        code: exit code of the command that started the agents, which is used for missing files.
        lost: names of the nodes whose agents were lost. If there are any, the outcome is
            ``node_failed``, because their loss causes all other failures.
    """
    nodes = range(spec.ranks.nodes if spec.ranks else 0)
    ends = _read_outcomes(spec)
    failures = _list_failures(spec, ends)
    if lost:
        which = f"node {lost[0]}" if len(lost) == 1 else f"nodes {', '.join(lost[:_MOST_NAMED])}"
        message = f"the agent on {which} was lost, and its ranks with it"
        return RanksOutcome(code, "node_failed", message, lost_nodes=lost)
    stop_requested = any(facts.get("told") for _, facts in ends.values())
    if not ends and not failures:
        return RanksOutcome(code)
    if not failures:
        codes = [int(facts.get("exit_code") or 0) for _, facts in ends.values()]
        missing = [code] if len(ends) < len(nodes) else []
        return RanksOutcome(max(codes + missing), stop_requested=stop_requested)
    _, node, facts, by_rank = min(failures, key=lambda item: item[0])
    node_facts = ends[node][1] if node in ends else {}
    # An agent that ended its ranks, for their memory, knows the reason better than the rank.
    if by_rank and node_facts.get("reason") in (None, "failed"):
        name = str(node_facts.get("node") or f"number {node}")
        return RanksOutcome(
            int(facts.get("exit_code") or 1), "failed", _format_failure(facts, name)
        )
    facts = node_facts or facts
    return RanksOutcome(int(facts["exit_code"]), facts.get("reason"), facts.get("message"))


def _read_outcomes(spec: Spec) -> dict[int, tuple[float, dict[str, Any]]]:
    """Return the outcome that each agent wrote, with the modification time of its file, by the
    number of the node.
    """
    folder, nodes = run_folder(spec), range(spec.ranks.nodes if spec.ranks else 0)
    return {
        node: record for node in nodes if (record := _read_node_file(f"{folder}/node-{node}.json"))
    }


def _list_failures(
    spec: Spec, ends: dict[int, tuple[float, dict[str, Any]]]
) -> list[tuple[float, int, dict[str, Any], bool]]:
    """Return the failures of agents and ranks: for each the time, the number of the node, the
    record, and whether it is the failure of a rank.
    """
    folder, nodes = run_folder(spec), range(spec.ranks.nodes if spec.ranks else 0)
    failures = []
    for node, (written_at, facts) in ends.items():
        if facts.get("exit_code") and not facts.get("told"):
            failures.append((written_at, node, facts, False))
    for command in range(len(spec.commands)):
        for node in nodes:
            record = _read_rank_failure(f"{folder}/{command}/failed-{node}.json")
            if record is not None:
                failures.append((record[0], node, record[1], True))
    return failures


def _format_failure(facts: dict[str, Any], node: str) -> str:
    if facts.get("message"):
        return str(facts["message"])
    rank, code = facts["rank"], facts["exit_code"]
    try:
        number = signal.Signals(code - 128)
    except ValueError:
        return f"rank {rank} on node {node} ended with exit code {code}"
    return f"rank {rank} on node {node} was ended by signal {number.value} ({number.name})"


def run_folder(spec: Spec) -> str:
    """Return the folder that the agents of all nodes share for this start of the job."""
    name = "run" if spec.task is None else f"run-{spec.task}"
    return f"{spec.job_dir}/{name}/{spec.restart_count}"


def _read_node_file(path: str) -> tuple[float, dict[str, Any]] | None:
    """Return modification time and content of a node's file; None if it is missing or invalid."""
    record = untrusted_files.read_json_object(path, _MOST_BYTES)
    if record is None:
        return None
    facts, document = record
    words = (document.get("reason"), document.get("message"))
    fits = document.get("exit_code") in range(256) and all(
        isinstance(w, (str, type(None))) for w in words
    )
    return (facts.st_mtime_ns, document) if fits else None


def _read_rank_failure(path: str) -> tuple[float, dict[str, Any]] | None:
    record = _read_node_file(path)
    return record if record is not None and isinstance(record[1].get("rank"), int) else None
