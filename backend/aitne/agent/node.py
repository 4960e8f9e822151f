"""Description of the node itself, for which the platform asks once a boot: NUMA nodes, GPUs with
their links, network interfaces, and the version of Python.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from dataclasses import replace

from aitne.agent.endings import PREFIX
from aitne.agent.programs import Programs
from aitne.agent.reporter import PYTHON, Reporter
from aitne.agent.spec import Spec
from aitne.topology.errors import TopologyError
from aitne.topology.node import NodeTopology, merged_node
from aitne.topology.nvidia import read_matrix
from aitne.topology.record import node_record
from aitne.topology.sysfs import read_sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

MOST_GPUS, MOST_NICS = 64, 256
"""Maximum number of devices of a node that is reported."""
_PROGRAM = "nvidia-smi"
_PROGRAM_S, _MOST_BYTES = 10.0, 256 << 10
"""Seconds after which ``nvidia-smi`` is killed, and how much of its output is read."""


def start_describing(spec: Spec, programs: Programs, reporter: Reporter, boot: str) -> None:
    """Start a thread that describes the node and reports the description. A failure is only logged."""

    def run() -> None:
        try:
            reporter.tell(
                "topology", {"boot_id": boot, "python": PYTHON, **describe(programs, "/sys")}
            )
        except (TopologyError, OSError) as error:
            sentence = f"{PREFIX}the topology of {spec.node} is not reported: {error}\n"
            with contextlib.suppress(OSError):  # such as a full disk
                os.write(2, sentence.encode("utf-8", "replace"))

    threading.Thread(target=run, name="node", daemon=True).start()


def describe(programs: Programs, root: str) -> dict[str, Any]:
    """Return what the node consists of, as values of JSON.

    ``root`` is ``/sys`` or a copy of it. NVLink is part of it if ``nvidia-smi`` is there and sees
    all GPUs of the node, which depends on the GPUs of the job.

    Raises:
        TopologyError: ``root`` cannot be read, or has too many devices.
    """
    node = read_sysfs(root)
    if len(node.gpus) > MOST_GPUS or len(node.nics) > MOST_NICS:
        raise TopologyError(
            f"it has {len(node.gpus)} GPUs and {len(node.nics)} network interfaces",
            f"At most {MOST_GPUS} and {MOST_NICS} are reported.",
        )
    shown = _matrix(programs) if node.gpus else None
    if shown is not None and len(shown.gpus) == len(node.gpus):
        node = merged_node([node, shown])
    gpus = {gpu.name for gpu in node.gpus}
    devices = gpus | {nic.name for nic in node.nics}
    links = {
        pair: kind for pair, kind in node.links.items() if gpus & {*pair} and devices >= {*pair}
    }
    record = node_record(replace(node, links=links))
    return {name: record[name] for name in ("numa_nodes", "gpus", "nics", "links")}


def _matrix(programs: Programs) -> NodeTopology | None:
    """Return what ``nvidia-smi topo -m`` says; None if it is missing or fails."""
    program = shutil.which(_PROGRAM)
    if program is None:
        return None
    output, _, whole = programs.look(
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
