"""Description of the node, which the platform requests once after each boot: NUMA nodes, GPUs with
their links, network interfaces, and the version of Python.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from dataclasses import replace

from aitne.agent.outcome import PREFIX
from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import PYTHON, Reporter
from aitne.agent.spec import Spec
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import NodeTopology, merge_node
from aitne_train.topology.nvidia_smi_topology import read_matrix
from aitne_train.topology.sysfs import read_sysfs
from aitne_train.topology.topology_json import node_to_record

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

MOST_GPUS, MOST_NICS = 64, 256
"""Maximum number of devices of a node that is reported."""
_PROGRAM = "nvidia-smi"
_PROGRAM_S, _MOST_BYTES = 10.0, 256 << 10
"""Seconds after which ``nvidia-smi`` is killed, and how much of its output is read."""


def start_describing(spec: Spec, programs: Programs, reporter: Reporter, boot: str) -> None:
    """Start a thread that reports a description of the node. Failures are only logged.

    Args:
        spec: description of the job.
        programs: starts ``nvidia-smi``.
        reporter: sends the report.
        boot: ID of the node's current boot.
    """

    def run() -> None:
        try:
            reporter.queue_document(
                "topology", {"boot_id": boot, "python": PYTHON, **describe_node(programs, "/sys")}
            )
        except (TopologyError, OSError) as error:
            sentence = f"{PREFIX}the topology of {spec.node} is not reported: {error}\n"
            with contextlib.suppress(OSError):  # such as a full disk
                os.write(2, sentence.encode("utf-8", "replace"))

    threading.Thread(target=run, name="node", daemon=True).start()


def describe_node(programs: Programs, root: str) -> dict[str, Any]:
    """Return the NUMA nodes, GPUs, network interfaces and links of the node as a JSON object.

    NVLinks are included if ``nvidia-smi`` is installed and shows all GPUs of the node; in a job it
    may show only the job's GPUs.

    Args:
        programs: starts ``nvidia-smi``.
        root: ``/sys``, or a copy of it.

    Raises:
        TopologyError: ``root`` cannot be read, or has too many devices.
    """
    node = read_sysfs(root)
    if len(node.gpus) > MOST_GPUS or len(node.nics) > MOST_NICS:
        raise TopologyError(
            f"it has {len(node.gpus)} GPUs and {len(node.nics)} network interfaces",
            f"At most {MOST_GPUS} and {MOST_NICS} are reported.",
        )
    shown = _query_gpu_topology(programs) if node.gpus else None
    if shown is not None and len(shown.gpus) == len(node.gpus):
        node = merge_node([node, shown])
    gpus = {gpu.name for gpu in node.gpus}
    devices = gpus | {nic.name for nic in node.nics}
    links = {
        pair: kind for pair, kind in node.links.items() if gpus & {*pair} and devices >= {*pair}
    }
    record = node_to_record(replace(node, links=links))
    return {name: record[name] for name in ("numa_nodes", "gpus", "nics", "links")}


def _query_gpu_topology(programs: Programs) -> NodeTopology | None:
    """Return the parsed output of ``nvidia-smi topo -m``; None if the program is not installed or
    fails."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    output, _, whole = programs.run_helper(
        [program, "topo", "-m"],
        dict(os.environ),
        timeout_s=_PROGRAM_S,
        most_bytes=_MOST_BYTES,
        counted_bytes=_MOST_BYTES,
    )
    if not whole:
        return None
    try:
        return read_matrix(output.decode(errors="replace"), f"{_PROGRAM} topo -m")
    except TopologyError:
        return None  # such as on a driver without this command
