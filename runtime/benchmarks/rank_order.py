"""Time of a step of a ring of four ranks in the given and in the improved order.

Four network namespaces are the nodes, three bridges the switches. The traffic of each uplink is limited
in each direction by ``tc``. Needs root.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aitne_train.topology.rank_order import RankOrder, order_ranks
from aitne_train.topology.slurm import parse_conf
from aitne_train.topology.switch_tree import TopologyTree
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import Estimate, median, median_ratio

NAME = "rank_order"
TOPOLOGY = """\
SwitchName=leaf1 Nodes=n[1,3]
SwitchName=leaf2 Nodes=n[2,4]
SwitchName=spine Switches=leaf[1-2]
"""
NODES = ("n1", "n2", "n3", "n4")
UPLINK_MBIT = 100
CHUNK_BYTES = 1 << 20
OFF_BY_PERCENT = 15.0
_ROOT = Path(__file__).parents[2]
_QUEUE = ("burst", "64kb", "limit", "8mb")
"""The queue holds more than all ranks send at once, so that no packet is dropped."""
_SETUP_S = 60.0
_TIMEOUT_S = 600.0


def measure(*, quick: bool) -> Figure:
    """Measure steps in both orders in turn."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "unshare", "nsenter"))):
        raise BenchmarkError("it needs root, and Debian's iproute2 and util-linux")
    order = order_ranks(TopologyTree(parse_conf(TOPOLOGY, "topology.conf")), NODES)
    with _fabric() as fabric:
        seconds = fabric.ring(order, 4 if quick else 20)
    ratio = median_ratio(seconds)
    predicted = order.given.busiest_uplink / order.chosen.busiest_uplink
    off = 100 * abs(ratio.value / predicted - 1)
    rows = [
        Row("step in the given order", "ms", median([given * 1e3 for given, _ in seconds])),
        Row("step in our order", "ms", median([ours * 1e3 for _, ours in seconds])),
        Row("given order over ours, measured", "x", ratio),
        Row("given order over ours, predicted", "x", _exact(predicted)),
        Row("measured differs from predicted by", "%", _exact(off), OFF_BY_PERCENT),
    ]
    notes = [
        f"{', '.join(NODES)} are network namespaces of one machine, not machines. n1 and n3 are on one "
        "bridge, n2 and n4 on another; a third bridge connects the two.",
        f"`tc` limits each uplink to {UPLINK_MBIT} Mbit/s in each direction (tbf); the links of the nodes "
        "are not limited.",
        f"A step exchanges {4 * CHUNK_BYTES >> 20} MiB as a ring all-reduce does, in 6 phases of "
        f"{CHUNK_BYTES >> 20} MiB from each rank to the next over TCP. It computes nothing.",
        f"{order.describe()}. The prediction is the ratio of the busiest uplinks.",
    ]
    return Figure(NAME, "A ring in two orders over throttled uplinks", rows, notes)


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1)


@dataclass(frozen=True, slots=True)
class _Fabric:
    """Network namespaces, each held by a process that does nothing. They end with it."""

    switches: int
    nodes: dict[str, int]

    def build(self, tree: TopologyTree) -> None:
        """Connect the nodes to bridges as the tree says, and limit the bridges' uplinks."""
        for switch in tree.switches:
            self._ip(self.switches, "link", "add", switch, "type", "bridge")
            self._ip(self.switches, "link", "set", switch, "up")
        for switch, parent in tree.parents.items():
            up, down = f"{switch}-up", f"{switch}-down"
            self._ip(self.switches, "link", "add", up, "type", "veth", "peer", "name", down)
            for port, bridge in ((up, switch), (down, parent)):
                self._ip(self.switches, "link", "set", port, "master", bridge, "up")
                rate = ("rate", f"{UPLINK_MBIT}mbit", *_QUEUE)
                _inside(self.switches, "tc", "qdisc", "add", "dev", port, "root", "tbf", *rate)
        for node, leaf in tree.leaf_of.items():
            pid = self.nodes[node]
            peer = ("peer", "name", "eth0", "netns", str(pid))
            self._ip(self.switches, "link", "add", node, "type", "veth", *peer)
            self._ip(self.switches, "link", "set", node, "master", leaf, "up")
            self._ip(pid, "address", "add", f"{_address(node)}/24", "dev", "eth0")
            self._ip(pid, "link", "set", "eth0", "up")

    def ring(self, order: RankOrder, pairs: int) -> list[tuple[float, float]]:
        """Return the seconds of steps in the given and in our order, as pairs."""
        rings = [[_address(node) for node in each] for each in (NODES, order.order)]
        with contextlib.ExitStack() as stack:
            ranks = {
                node: stack.enter_context(_killed(_rank(pid, rings, node, pairs)))
                for node, pid in self.nodes.items()
            }
            try:
                said = {node: rank.communicate(timeout=_TIMEOUT_S) for node, rank in ranks.items()}
            except subprocess.TimeoutExpired as error:
                raise BenchmarkError(f"the ring did not end in {_TIMEOUT_S:g} s") from error
        for node, rank in ranks.items():
            if rank.returncode:
                raise BenchmarkError(f"the rank on {node} failed: {said[node][1][-300:]}")
        return [(given, ours) for given, ours in json.loads(said[NODES[0]][0])]

    def _ip(self, pid: int, *words: str) -> None:
        _inside(pid, "ip", *words)


def _address(node: str) -> str:
    return f"10.99.0.{NODES.index(node) + 1}"


def _rank(pid: int, rings: Sequence[Sequence[str]], node: str, pairs: int) -> subprocess.Popen[str]:
    given = {"rings": rings, "address": _address(node), "bytes": CHUNK_BYTES, "pairs": pairs}
    argv = [sys.executable, "-m", "runtime.benchmarks.rank_order_rank", json.dumps(given)]
    return subprocess.Popen(
        [*_enter(pid), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
    )


@contextlib.contextmanager
def _killed(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _fabric() -> Iterator[_Fabric]:
    tree = TopologyTree(parse_conf(TOPOLOGY, "topology.conf"))
    with contextlib.ExitStack() as stack:

        def namespace() -> int:
            # It writes a line when it is in the new namespace, and ends with its standard input.
            holder = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "ip link set lo up; echo; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(_killed(holder))
            if holder.stdout is None or not holder.stdout.readline():
                raise BenchmarkError("the kernel refused a network namespace")
            return holder.pid

        fabric = _Fabric(namespace(), {node: namespace() for node in NODES})
        fabric.build(tree)
        yield fabric


def _enter(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net"]


def _inside(pid: int, *argv: str) -> None:
    done = subprocess.run(
        [*_enter(pid), *argv], capture_output=True, text=True, timeout=_SETUP_S, check=False
    )
    if done.returncode:
        raise BenchmarkError(f"{' '.join(argv)} failed: {done.stderr.strip()[-300:]}")
