"""Steps for accelerators, fast networks and parallel file systems. They have never run on such hardware."""

from __future__ import annotations

from aitne.operations.acceptance.acceptance_steps import step
from aitne.operations.acceptance.site_client import AcceptanceSite, StepFailed, StepSkipped

_LINK_CHECK = "python -m aitne_train.linkcheck"
_NO_VENV = "No environment with PyTorch was given: pass --venv DIR, as the nodes see it."


@step("gpu", "A job sees the GPUs that it requested, and no others.", hardware="gpu")
def check_visible_gpus(site: AcceptanceSite) -> str:
    """Count the GPUs that nvidia-smi shows in jobs with one GPU and with all GPUs of a node."""
    offered = [sum(one.total for one in node.gpus) for node in site.usable_nodes()]
    most = max(offered, default=0)
    if most == 0:
        raise StepSkipped("The scheduler offers no GPU.")
    for count in sorted({1, most}):
        log = site.wait_for_log(
            site.submit("gpu", "nvidia-smi -L", resources={"gpu": count}),
            "Check the driver on the node, and gres.conf.",
        )
        seen = sum(line.startswith("GPU ") for line in log.splitlines())
        if seen != count:
            raise StepFailed(
                f"A job with {count} GPUs sees {seen}.",
                "Set ConstrainDevices=yes in cgroup.conf, and AutoDetect=nvml in gres.conf.",
            )
    return f"Jobs with 1 and with {most} GPUs see exactly these."


@step("nccl", "Two GPUs exchange tensors with NCCL.", hardware="gpu")
def check_nccl_allreduce(site: AcceptanceSite) -> str:
    """Measure an allreduce between two GPUs of one node."""
    if site.venv is None:
        raise StepSkipped(_NO_VENV)
    return _measure_links(
        site,
        "nccl",
        {"gpu": 2, "cpu": 2, "memory": "8G"},
        {"ranks_per_node": 2, "backend": "nccl"},
        "Check `nvidia-smi topo -m`, and NCCL_DEBUG=INFO in the job's environment.",
    )


@step("fabric", "Two nodes exchange tensors at the speed of the fabric.", hardware="fabric")
def check_fabric_speed(site: AcceptanceSite) -> str:
    """Measure latency and bandwidth between two nodes with the training runtime."""
    if site.venv is None:
        raise StepSkipped(_NO_VENV)
    if len(site.usable_nodes()) < 2:
        raise StepSkipped("There are not two usable nodes.")
    return _measure_links(
        site,
        "fabric",
        {"nodes": 2, "cpu": 2, "memory": "4G"},
        {"ranks_per_node": 1},
        "Check the interface of the fabric (`ibstat`, `ip link`), and the routes between the nodes.",
    )


def _measure_links(
    site: AcceptanceSite,
    name: str,
    resources: dict[str, object],
    distributed: dict[str, object],
    remedy: str,
) -> str:
    job = site.submit(
        name,
        _LINK_CHECK,
        resources=resources,
        distributed=distributed,
        environment={"venv": site.venv},
    )
    log = site.wait_for_log(job, remedy)
    return f"No link is slow. {' '.join(log.split())[-1_500:]}"


@step(
    "beegfs", "Jobs' folders are on BeeGFS, and their stripe pattern is known.", hardware="beegfs"
)
def check_beegfs_folder(site: AcceptanceSite) -> str:
    """Read the type of the file system of the job folder, and its stripe pattern."""
    program = (
        'echo "type $(findmnt -n -o FSTYPE -T "$AITNE_JOB_DIR")"; '
        'beegfs entry info "$AITNE_JOB_DIR" 2>/dev/null '
        '|| beegfs-ctl --getentryinfo "$AITNE_JOB_DIR" || echo no-tool'
    )
    log = site.wait_for_log(site.submit("beegfs", program), "See the log of the job.")
    kind = log.partition("type ")[2].partition("\n")[0]
    if not kind.startswith("beegfs"):
        raise StepFailed(
            f"The job folder is on {kind or 'an unknown file system'}, not on BeeGFS.",
            "Mount BeeGFS there, or set slurm.jobs_dir to a folder on it.",
        )
    if "no-tool" in log:
        raise StepFailed(
            "BeeGFS is mounted, but its tool is missing.", "Install beegfs-utils on nodes."
        )
    return f"The job folder is on BeeGFS. {' '.join(log.split())[-1_500:]}"
