"""JSON form of parts of a topology, in the reports of agents and in the platform's database."""

from __future__ import annotations

from aitne_train.topology.hostlist import compress_hostlist, expand_hostlist
from aitne_train.topology.node_topology import (
    Device,
    NodeTopology,
    NumaNode,
    format_cpu_list,
    parse_cpu_list,
)
from aitne_train.topology.switch_tree import SourceLine, Switch
from aitne_train.topology.topology_parts import TopologyPart

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence
    from typing import Any

_NAMES_AT_ONCE = 10_000
"""Maximum number of names in one host list, which is below the limit for reading one."""


def part_to_record(part: TopologyPart) -> dict[str, Any]:
    """Convert a part to a JSON object."""
    return {
        "switches": [
            {
                "name": switch.name,
                "file": switch.source.file,
                "line": switch.source.line,
                "is_block": switch.is_block,
                "switches": list(switch.switches),
                "nodes": [
                    compress_hostlist(switch.nodes[start : start + _NAMES_AT_ONCE])
                    for start in range(0, len(switch.nodes), _NAMES_AT_ONCE)
                ],
            }
            for switch in part.switches
        ],
        "nodes": [node_to_record(node) for node in part.nodes],
    }


def part_from_record(record: Mapping[str, Any]) -> TopologyPart:
    """Convert a JSON object of ``part_to_record`` back to the part. Its values are not validated."""
    return TopologyPart(
        tuple(
            Switch(
                each["name"],
                SourceLine(each["file"], each["line"]),
                tuple(each["switches"]),
                tuple(name for text in each["nodes"] for name in expand_hostlist(text)),
                each["is_block"],
            )
            for each in record["switches"]
        ),
        tuple(map(_node_from_record, record["nodes"])),
    )


def node_to_record(node: NodeTopology) -> dict[str, Any]:
    """Convert the topology of one node to a JSON object. A link of the same kind in both directions
    is written only once."""
    return {
        "name": node.name,
        "source": node.source,
        "numa_nodes": [
            {"index": numa.index, "cpus": format_cpu_list(numa.cpus)} for numa in node.numa_nodes
        ],
        "gpus": _devices_to_records(node.gpus),
        "nics": _devices_to_records(node.nics),
        "links": [
            [one, other, kind]
            for (one, other), kind in node.links.items()
            if one < other or node.links.get((other, one)) != kind
        ],
        "is_configured": node.is_configured,
    }


def _devices_to_records(devices: Sequence[Device]) -> list[dict[str, Any]]:
    return [{"name": each.name, "pci": each.pci, "numa": each.numa} for each in devices]


def _devices_from_records(records: Sequence[Mapping[str, Any]]) -> tuple[Device, ...]:
    # Another release may have written more about them.
    return tuple(Device(each["name"], each.get("pci"), each.get("numa")) for each in records)


def _node_from_record(record: Mapping[str, Any]) -> NodeTopology:
    links: dict[tuple[str, str], str] = {}
    for one, other, kind in record["links"]:
        links[one, other] = kind
        links.setdefault((other, one), kind)
    return NodeTopology(
        name=record["name"],
        source=record["source"],
        numa_nodes=tuple(
            NumaNode(each["index"], parse_cpu_list(each["cpus"])) for each in record["numa_nodes"]
        ),
        gpus=_devices_from_records(record["gpus"]),
        nics=_devices_from_records(record["nics"]),
        links=links,
        is_configured=record.get("is_configured", False),
    )
