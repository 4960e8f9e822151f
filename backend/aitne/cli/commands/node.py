"""``node``: nodes, partitions and GPUs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from aitne.cli import output
from aitne.cli.command_registry import LOOK, examples, group
from aitne.cli.job_lookup import make_client
from aitne.cli.shared_options import DataDir, Json, Url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.client.records import PartitionRecord

Period = Literal["day", "week", "month"]


@group("node", LOOK)
def nodes() -> None:
    """List nodes, partitions and GPUs of the cluster."""


@nodes.command("ls")
def node_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the nodes and the use of their resources."""
    cluster_nodes = make_client(url, data_dir).nodes.list()
    return output.print_list(
        as_json,
        cluster_nodes,
        ("NAME", "STATE", "PARTITION", "CPU", "MEMORY", "GPU", "FEATURES", "REASON"),
        lambda node: (
            node.name,
            node.state,
            " ".join(node.partitions or ()),
            f"{node.cpu_used}/{node.cpu_total}",
            f"{output.format_memory(node.memory_used_bytes)} / {output.format_memory(node.memory_total_bytes)}",
            " ".join(f"{gpu.type or 'gpu'} {gpu.used}/{gpu.total}" for gpu in node.gpus),
            " ".join(node.features or ()),
            node.reason or "",
        ),
    )


@nodes.command("partitions")
def partition_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the partitions, their limits and free resources."""
    partitions = make_client(url, data_dir).nodes.partitions()
    return output.print_list(
        as_json,
        partitions,
        ("NAME", "STATE", "NODES", "CPU", "FREE GPU", "LONGEST", "LIST"),
        lambda partition: (
            f"{partition.name}*" if partition.default else partition.name,
            _format_state(partition),
            partition.node_count,
            f"{partition.cpu_used}/{partition.cpu_total}",
            " ".join(f"{gpu.type or 'gpu'} {gpu.free}/{gpu.total}" for gpu in partition.gpus),
            "" if partition.max_time_s is None else output.format_duration(partition.max_time_s),
            partition.nodes,
        ),
    )


def _format_state(partition: PartitionRecord) -> str:
    """Return Slurm's word for the state of a partition."""
    if partition.up:
        return "up" if partition.accepts_jobs else "drain"
    return "down" if partition.accepts_jobs else "inactive"


@nodes.command("queues", epilog=examples("aitne node queues --period week"))
def queue_ls(
    period: Annotated[Period, typer.Option("--period", help="Period of the wait times.")] = "day",
    as_json: Json = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> int:
    """List the pending and running jobs of each partition, and how long jobs waited for their start."""
    queues = make_client(url, data_dir).nodes.queues(period)
    if as_json:
        output.print_json(queues)
        return 0
    if not queues["items"]:
        output.print_message("No job is pending or running, and none started in this period.")
        return 0
    output.print_table(
        ("PARTITION", "PENDING", "RUNNING", "OLDEST", "STARTED", "MEAN WAIT", "LONGEST WAIT"),
        [
            (
                queue["partition"] or "none",
                queue["waiting_jobs"],
                queue["running_jobs"],
                _format_duration(queue["oldest_wait_s"]),
                queue["started_jobs"],
                _format_duration(queue["mean_wait_s"]),
                _format_duration(queue["longest_wait_s"]),
            )
            for queue in queues["items"]
        ],
    )
    return 0


def _format_duration(seconds: float | None) -> str:
    return "" if seconds is None else output.format_duration(seconds)


@nodes.command("gpus")
def gpu_ls(as_json: Json = False, url: Url = None, data_dir: DataDir = None) -> int:
    """List the GPUs by type: free, used, and when the next ones become free."""
    from datetime import datetime

    capacity = make_client(url, data_dir).nodes.capacity()
    if as_json:
        output.print_json(capacity)
        return 0
    if not capacity:
        output.print_message("No node has a GPU.")
        return 0
    output.print_table(
        ("TYPE", "FREE", "USED", "UNAVAILABLE", "TOTAL", "REQUESTED", "NEXT FREE"),
        [
            (
                gpu_type["type"] or "gpu",
                gpu_type["free"],
                gpu_type["used"],
                gpu_type["unavailable"] or "",
                gpu_type["total"],
                gpu_type["waiting"] or "",
                output.format_time(datetime.fromisoformat(gpu_type["next_free_at"]))
                if gpu_type["next_free_at"]
                else "",
            )
            for gpu_type in capacity
        ],
    )
    return 0
