"""Conversion of a job to options of sbatch (https://slurm.schedmd.com/sbatch.html) as a list of
arguments.

No option passes through a shell or into the script, and the name that the user gave the job is not
passed. Options that a site permits users to set come first, so that the platform's own options take
precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from aitne.adapters.schedulers._slurm import job_comment
from aitne.core.cluster.partition_defaults import NO_LIMIT_S
from aitne.core.errors import SchedulerRejected
from aitne.core.jobs.job_folder_layout import log_file_name
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import MemoryRequest, Resources
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.units import format_slurm_time

UNLIMITED = "UNLIMITED"
"""Value of ``--time`` for no time limit."""
_FIRST_UTS = 1_000_000
"""Lowest start time in seconds since 1970 that Slurm accepts in its format ``uts``."""
_OWN_RULE = frozenset({"account", "exclude", "extra", "requeue", "signal", "time_min"})
"""Fields of ``SlurmOptions`` that ``make_sbatch_arguments`` converts individually."""
_SAME_NAME = {
    name: f"--{name.replace('_', '-')}"
    for name in SlurmOptions.model_fields
    if name not in _OWN_RULE
}
"""All other fields, whose values are passed unchanged to the sbatch option of the same name."""
_OURS = frozenset({
    "--account", "--array", "--begin", "--chdir", "--clusters", "--comment",
    "--cpus-per-task", "--dependency", "--error", "--exclude", "--export", "--export-file", "--get-user-env",
    "--gid", "--gres", "--help", "--hold", "--input", "--job-name", "--kill-on-invalid-dep",
    "--mem", "--no-kill", "--no-requeue", "--nodes", "--ntasks", "--ntasks-per-node", "--open-mode", "--output",
    "--parsable", "--propagate", "--quiet", "--requeue",
    "--signal", "--test-only", "--time", "--time-min", "--uid", "--usage", "--version", "--wait", "--wrap",
} | set(_SAME_NAME.values()) - {"--exclusive"})  # fmt: skip
"""Options that a site cannot permit to users: the platform sets them, or they would change the kind
of the job.

``--exclusive=user`` differs from the field ``exclusive``, and a site may permit it.
"""


def make_sbatch_arguments(
    request: SubmitRequest, *, accounting: bool, allowed: Sequence[str] = ()
) -> Iterator[str]:
    """Yield all options of sbatch for ``request``; the script is passed on stdin.

    ``accounting`` is True if the site has accounts in slurmdbd. ``allowed`` are the options that
    the site permits users to set (``[slurm] extra``).

    Raises:
        SchedulerRejected: ``slurm.extra`` of the job contains an option that is not permitted.
    """
    wants, slurm = request.resources, request.slurm
    for option in slurm.extra:
        yield _check_extra_option(option, allowed)
        # For an option that lacks its value, sbatch takes the next word as the value: this one.
        yield "--parsable"
    yield "--parsable"
    yield f"--job-name={job_comment.make_job_name(request.job_id, request.attempt)}"
    yield f"--comment={job_comment.make_comment(request.job_id, request.attempt)}"
    yield f"--chdir={request.job_dir}"
    yield f"--output={_make_log_pattern(request)}"
    # A requeued job appends to its log.
    yield "--open-mode=append"
    # The complete environment of the command, which contains only variables of the job's account.
    # Any other value makes the node run the user's login shell first (--get-user-env), which can hang.
    yield "--export=ALL"
    # The resource limits of the submitting process, a service, do not apply to a job.
    yield "--propagate=NONE"
    yield f"--nodes={wants.nodes}"
    if wants.tasks_per_node is not None:
        if "ntasks" in wants.sbatch_options:
            yield f"--ntasks={wants.nodes * wants.tasks_per_node}"
        else:
            yield f"--ntasks-per-node={wants.tasks_per_node}"
    if (cpus := _cpus_per_task(wants)) is not None:
        yield f"--cpus-per-task={cpus}"
    if request.session and wants.nodes > 1:
        # The app on the first node outlives the others.
        yield "--no-kill"
    if (memory := _make_memory_option(wants)) is not None:
        yield memory
    if not request.default_time_limit:
        limit_s = request.time_limit_s
        yield f"--time={UNLIMITED if limit_s >= NO_LIMIT_S else format_slurm_time(limit_s)}"
    gpus = _make_gpu_options(wants)
    yield from gpus
    if gres := _format_gres(wants, gpus=not gpus):
        yield f"--gres={gres}"
    for name, option in _SAME_NAME.items():
        value = getattr(slurm, name)
        if value is not None and value is not False:
            yield option if value is True else f"{option}={value}"
    yield from _make_placement_options(request)
    if accounting:
        yield f"--account={slurm.account or request.project}"
    if request.array is not None:
        yield f"--array={request.array}"
    dependencies = [
        f"{kind}:{':'.join(ids)}"
        for kind, ids in (
            ("afterok", request.after),
            ("afterany", request.afterany),
            ("afternotok", request.afternotok),
            ("aftercorr", request.aftercorr),
        )
        if ids
    ]
    if dependencies:
        yield f"--dependency={','.join(dependencies)}"
        yield "--kill-on-invalid-dep=yes"
    if request.begin_at is not None:
        # Seconds since 1970: sbatch would read a date in the time zone of its own machine.
        yield f"--begin=uts{max(_FIRST_UTS, int(request.begin_at.timestamp()))}"
    if request.hold:
        yield "--hold"
    if slurm.time_min is not None:
        yield f"--time-min={format_slurm_time(slurm.time_min)}"
    if slurm.signal:
        yield f"--signal={_format_signal(slurm.signal)}"
    if (requeue := may_requeue(request)) is not None:
        yield "--requeue" if requeue else "--no-requeue"


def _format_signal(text: str) -> str:
    """Return the value of ``--signal``: to the agent, which forwards it, or to the job's steps."""
    receiver, _, signal = text.rpartition(":")
    return signal if receiver == "steps" else f"B:{signal}"


def _make_placement_options(request: SubmitRequest) -> Iterator[str]:
    """Yield the options about the nodes on which the job may run."""
    if request.nodes:
        yield f"--nodelist={','.join(request.nodes)}"
    exclude = [*filter(None, [request.slurm.exclude]), *request.exclude]
    if exclude:
        yield f"--exclude={','.join(exclude)}"
    if request.max_leaves is not None:
        wait_s = request.max_leaves_wait_s
        wait = "" if wait_s is None else f"@{format_slurm_time(wait_s)}"
        yield f"--switches={request.max_leaves}{wait}"


def _cpus_per_task(resources: Resources) -> int | None:
    """Return the value of ``--cpus-per-task``; None for Slurm's default of one CPU.

    Without the option, SLURM_CPUS_PER_TASK is unset, as it is for the same script with sbatch.
    """
    if resources.cpus_per_task is not None or resources.tasks_per_node is not None:
        return resources.cpus_per_task
    return resources.cpu if resources.cpu > 1 else None


def _make_memory_option(resources: Resources) -> str | None:
    """Return the option that requests the memory, rounded up to MiB; None if Slurm decides."""
    if resources.memory_request is MemoryRequest.DEFAULT:
        return None
    if resources.memory_request is MemoryRequest.ALL:
        return "--mem=0"
    for name, parts in (("mem-per-cpu", resources.cpu), ("mem-per-gpu", resources.gpu.count)):
        if name in resources.sbatch_options and parts:
            return f"--{name}={-(-resources.memory_bytes // (parts << 20))}M"
    return f"--mem={-(-resources.memory_bytes // (1 << 20))}M"


def _make_gpu_options(resources: Resources) -> list[str]:
    """Return the options other than ``--gres`` that request the GPUs; empty if none is chosen, or if
    the GPUs of a node are not the same number for each task.
    """
    count, tasks = resources.gpu.count, resources.tasks_per_node or 0
    numbers = {
        "gpus-per-node": count,
        "gpus-per-task": count // tasks if tasks and not count % tasks else 0,
        "gpus": count * resources.nodes,
    }
    return [
        f"--{name}={resources.gpu.model_copy(update={'count': number})}"
        for name, number in numbers.items()
        if name in resources.sbatch_options and number
    ]


def may_requeue(request: SubmitRequest) -> bool | None:
    """Return True if Slurm may requeue the job by itself; None if Slurm decides (JobRequeue).

    Slurm has no option for the maximum number of requeues. The platform's controller reads the
    restart count with every poll and cancels a job that was restarted too often.
    """
    if request.session:
        return False
    if request.slurm.requeue is not None:
        return request.slurm.requeue
    return None if request.max_requeues is None else request.max_requeues > 0


def _format_gres(resources: Resources, *, gpus: bool) -> str:
    """Return the value of sbatch's ``--gres``, such as ``gpu:a100:4,shard:2``: GPUs, unless another
    option requests them, and other GRES per node; empty if there are none.
    """
    parts = [f"gpu:{resources.gpu}"] if gpus and resources.gpu.count else []
    return ",".join([*parts, *(f"{name}:{count}" for name, count in resources.gres.items())])


def _make_log_pattern(request: SubmitRequest) -> PurePath:
    """Return the path pattern of the log for sbatch; a ``%`` in the job folder's name is escaped,
    so that Slurm does not expand it.
    """
    folder = request.job_dir.replace("%", "%%")
    if request.array is None:
        return PurePath(folder) / log_file_name(None)
    return PurePath(folder) / log_file_name(0).replace("0", "%a")


def _check_extra_option(option: str, allowed: Sequence[str]) -> str:
    name = option.partition("=")[0]
    if name in allowed and name not in _OURS:
        return option
    usable = sorted(set(allowed) - _OURS)
    what = f"permitted are {', '.join(usable)}" if usable else "this site permits none"
    raise SchedulerRejected(f"slurm.extra: {name} is not permitted; {what}.", "slurm.extra")
