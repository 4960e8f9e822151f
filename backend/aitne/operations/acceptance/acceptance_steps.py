"""Steps of the acceptance test that every site can run."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from aitne.core.errors import InvalidInput
from aitne.operations.acceptance.site_client import (
    WAIT_S,
    AcceptanceSite,
    StepFailed,
    StepSkipped,
)

StepFunction = Callable[[AcceptanceSite], str]


@dataclass(frozen=True, slots=True)
class AcceptanceStep:
    """One step of the acceptance test. Its function returns a sentence about what worked."""

    name: str
    summary: str
    function: StepFunction
    hardware: str | None = None
    """Option without which the step is skipped, such as ``gpu``; None: it always runs."""


STEPS: dict[str, AcceptanceStep] = {}
"""All steps by name, in their order."""


def step(
    name: str, summary: str, *, hardware: str | None = None
) -> Callable[[StepFunction], StepFunction]:
    """Register a function as a step of the acceptance test."""

    def register(function: StepFunction) -> StepFunction:
        STEPS[name] = AcceptanceStep(name, summary, function, hardware)
        return function

    return register


@step("batch", "A batch job runs, and its output is read.")
def check_batch_job(site: AcceptanceSite) -> str:
    """Run a job that prints a random word."""
    word = secrets.token_hex(8)
    log = site.wait_for_log(
        site.submit("batch", f"echo {word}"),
        "See `aitne show` of the job, and run `aitne admin doctor`.",
    )
    if word not in log:
        raise StepFailed(
            "The job completed, but its log does not have its output.",
            "Check slurm.jobs_dir: nodes and portal need the same file system.",
        )
    return "A job ran, and its log has its output."


@step("log-follow", "The log of a running job is followed.")
def log_follow(site: AcceptanceSite) -> str:
    """Read a line while the job that printed it is still running."""
    job = site.submit("log", "echo first", "sleep 600")
    for _ in site.client.jobs.follow_logs(job.id):
        if not site.client.jobs.get(job.id).ended:
            return "A line was read while its job was running."
        break
    end = site.client.jobs.get(job.id)
    raise StepFailed(
        f"No line was read while the job was running; it is {end.state}: {end.message or ''}",
        "Check that the portal's machine sees files on the nodes' file system at once (attribute caches "
        "of NFS: actimeo).",
    )


@step("array", "Each task of an array runs with its own index.")
def check_array_job(site: AcceptanceSite) -> str:
    """Run an array of three tasks, each of which prints its index."""
    job = site.submit("array", "echo index $SLURM_ARRAY_TASK_ID", array="0-2")
    end = site.wait_for_end(job)
    if end.state != "COMPLETED":
        raise StepFailed(
            f"The array is {end.state}: {end.message or 'no message'}",
            "See `aitne show` of the job.",
        )
    wrong = [task for task in range(3) if f"index {task}" not in site.read_log(job, task)]
    if wrong:
        raise StepFailed(
            f"The logs of these tasks do not have their index: {wrong}.", "Report this as a defect."
        )
    return "Three tasks ran, each with its own index and log."


@step("mpi", "Tasks of one job start together, by srun or mpirun.")
def check_mpi_tasks(site: AcceptanceSite) -> str:
    """Start two tasks with srun or mpirun, whichever the node has."""
    launcher = "srun" if site.has_slurm() else "mpirun --oversubscribe -n 2"
    program = (
        f"if command -v {launcher.split()[0]} >/dev/null; then {launcher} bash -c 'echo task-here'; "
        "else echo no-launcher; fi"
    )
    resources = {"tasks_per_node": 2, "cpu": 2}
    # The jobs of a platform that root has started run as root, which Open MPI refuses otherwise.
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        job = site.submit("mpi", program, resources=resources, env=env)
    except InvalidInput as error:
        raise StepSkipped(f"The scheduler starts no tasks: {error.message}") from error
    log = site.wait_for_log(
        job,
        "Start a program with srun or mpirun in a job by hand; with Slurm check MpiDefault in slurm.conf.",
    )
    if "no-launcher" in log:
        raise StepSkipped(f"The node has no {launcher.split()[0]}.")
    if (count := log.count("task-here")) != 2:
        raise StepFailed(
            f"{count} tasks started instead of 2.",
            "With Slurm check MpiDefault and `srun -n 2`; otherwise the installation of MPI.",
        )
    return "Two tasks of one job started."


@step("ranks", "A distributed job starts its ranks, on two nodes where there are two.")
def check_rank_start(site: AcceptanceSite) -> str:
    """Start ranks with the platform's own launcher."""
    nodes = min(2, len(site.usable_nodes()))
    fields = {"resources": {"nodes": nodes, "cpu": 2}, "distributed": {"ranks_per_node": 2}}
    log = site.wait_for_log(
        site.submit("ranks", "echo rank-$RANK-of-$WORLD_SIZE", **fields),
        "Open the ports between the nodes: the ranks of a job connect to each other.",
    )
    size = 2 * nodes
    missing = [rank for rank in range(size) if f"rank-{rank}-of-{size}" not in log]
    if missing:
        raise StepFailed(f"These ranks did not start: {missing}.", "Report this as a defect.")
    return f"{size} ranks started on {nodes} node{'s' if nodes > 1 else ''}."


@step("session", "A session starts, can be opened, and stops.")
def check_session(site: AcceptanceSite) -> str:
    """Start JupyterLab, ask for its address, and stop it."""
    templates = [one.name for one in site.client.templates.list()]
    if "jupyterlab" not in templates:
        raise StepSkipped("The site offers no template jupyterlab.")
    started = site.client.sessions.start("jupyterlab", job_file={"max_duration": "10m"})
    site.jobs.append(started.id)
    ready = site.client.sessions.wait_ready(started.id, timeout_s=WAIT_S)
    url = site.client.sessions.open(ready.id)
    site.client.sessions.stop(ready.id)
    end = site.wait_for_end(ready)
    if end.state not in ("CANCELLED", "COMPLETED"):
        raise StepFailed(
            f"The stopped session is {end.state}: {end.message or 'no message'}",
            "See the log of the session.",
        )
    if not url.startswith("http"):
        raise StepFailed(f"The session has no address, but {url!r}.", "Check sessions_url.")
    return "A session became ready, had an address, and stopped."


@step("container", "A job runs in an image of the catalogue.")
def check_container_job(site: AcceptanceSite) -> str:
    """Run a job in the first image that is offered."""
    images = [image for image in site.client.images.list() if image.offered]
    if not images:
        raise StepSkipped("The catalogue offers this user no image.")
    image = images[0].reference
    log = site.wait_for_log(
        site.submit("container", "echo inside; cat /etc/os-release", image=image),
        "Check Apptainer on the nodes (`aitne admin doctor --job-as USER`).",
    )
    if "inside" not in log:
        raise StepFailed(f"The job in {image} printed nothing.", "See its log.")
    return f"A job ran in {image}."


@step("dataset", "A job reads a dataset.")
def check_dataset_access(site: AcceptanceSite) -> str:
    """Run a job that lists the files of the first dataset that the user may read."""
    datasets = [one for one in site.client.datasets.list() if not one.retired]
    if not datasets:
        raise StepSkipped("This user may read no dataset.")
    reference = datasets[0].reference
    program = f'test -n "$(ls -A "$AITNE_DATASETS/{datasets[0].name}")" && echo readable'
    log = site.wait_for_log(
        site.submit("dataset", program, datasets=[reference]),
        "Mount the folder of the dataset on all nodes (`storage.datasets`).",
    )
    if "readable" not in log:
        raise StepFailed(f"The dataset {reference} is empty in the job.", "Mount its folder.")
    return f"A job read the dataset {reference}."


@step("limits", "A job above the limits is refused, with the reason.")
def check_limit_refusal(site: AcceptanceSite) -> str:
    """Submit a job that runs for ten years, which no site permits."""
    try:
        site.submit("limits", "true", max_duration="3650d")
    except InvalidInput as error:
        return f"A job of ten years was refused: {error.message}"
    raise StepFailed("A job of ten years was accepted.", "Set limits.max_duration.")


@step("cancel", "A running job is cancelled.")
def check_job_cancellation(site: AcceptanceSite) -> str:
    """Cancel a job while it is running."""
    job = site.submit("cancel", "sleep 600")
    running = site.wait(job, lambda one: one.state == "RUNNING")
    if running.ended:
        raise StepFailed(f"The job is {running.state}: {running.message}", "See its log.")
    site.client.jobs.cancel(job.id)
    end = site.wait_for_end(job)
    if end.state != "CANCELLED":
        raise StepFailed(f"The cancelled job is {end.state}.", "Check `scancel` as this user.")
    return "A running job was cancelled."


@step("agent-killed", "A job whose agent was killed ends, and its message names that.")
def agent_killed(site: AcceptanceSite) -> str:
    """Kill the agent from its own job, and wait for the outcome."""
    end = site.wait_for_end(site.submit("agent killed", "kill -9 $PPID; sleep 600"))
    if end.state in ("COMPLETED", "CANCELLED"):
        raise StepFailed(
            f"A job whose agent was killed is {end.state}.", "Report this as a defect."
        )
    if not end.message:
        raise StepFailed(f"The job is {end.state} without a message.", "Report this as a defect.")
    return f"The job is {end.state}: {end.message}"
