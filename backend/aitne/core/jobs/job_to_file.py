"""Conversion of a job back to the job file that would create the same job, for the job editor of
the portal and for templates.
"""

from __future__ import annotations

from typing import Any

from aitne.core.models.base import OFF
from aitne.core.models.common_job_fields import DEPENDENCIES, JobOptions, format_durations
from aitne.core.models.image import BARE
from aitne.core.models.job import JobSpec, JobType, RetryPolicy
from aitne.core.models.job_file import is_reserved
from aitne.core.models.resources import ALL, MemoryRequest
from aitne.core.units import format_duration, format_memory


def job_to_file(spec: JobSpec) -> dict[str, Any]:
    """Return the content of a job file in its shortest form: values that are defaults of the
    template are omitted.

    Dependencies on other jobs are omitted too, because these jobs have ended or will end soon.
    """
    env = {name: value for name, value in spec.env.items() if not is_reserved(name)}
    content: dict[str, Any] = {
        "type": spec.type.value if spec.type is JobType.SESSION else None,
        "name": spec.name,
        "project": spec.project,
        "template": spec.template,
        "parameters": dict(spec.parameters),
        "image": None if spec.image == BARE else spec.image,
        "datasets": [f"{dataset.name}:{dataset.version}" for dataset in spec.datasets],
        "commands": [] if spec.template else list(spec.commands),
        "distributed": spec.distributed.model_dump() if spec.distributed else None,
        "env": env,
        "workdir": spec.workdir,
        "tree": spec.tree.digest if spec.tree else None,
        "resources": _get_resource_fields(spec),
        "max_duration": format_duration(spec.max_duration_s)
        if spec.max_duration_requested
        else None,
        "inactivity_duration": _format_inactivity_duration(spec),
        "retry": {"max": spec.retry.max, "on": sorted(reason.value for reason in spec.retry.on)}
        if spec.retry != RetryPolicy()
        else None,
        "array": None if spec.sweep else spec.array,
        "sweep": _get_sweep_fields(spec),
        **_get_option_fields(spec),
    }
    return {name: value for name, value in content.items() if value not in (None, {}, [])}


def _get_option_fields(spec: JobSpec) -> dict[str, Any]:
    """Return the options that are copied unchanged, with durations as a user writes them."""
    fields = JobOptions.model_fields.keys() - DEPENDENCIES
    return format_durations(spec.model_dump(mode="json", include=fields, exclude_defaults=True))


def _get_sweep_fields(spec: JobSpec) -> dict[str, Any] | None:
    return spec.sweep.model_dump(mode="json", exclude_defaults=True) if spec.sweep else None


def _format_inactivity_duration(spec: JobSpec) -> str | None:
    if spec.type is not JobType.SESSION:
        return None
    # If it were left out, the template's or the site's would apply.
    seconds = spec.inactivity_duration_s
    return OFF if seconds is None else format_duration(seconds)


def _get_resource_fields(spec: JobSpec) -> dict[str, Any]:
    resources = spec.resources
    fields: dict[str, Any] = {"nodes": resources.nodes} if resources.nodes > 1 else {}
    tasks = {"tasks_per_node": resources.tasks_per_node, "cpus_per_task": resources.cpus_per_task}
    tasks = {name: count for name, count in tasks.items() if count is not None}
    fields |= tasks or {"cpu": resources.cpu}
    if resources.memory_request is MemoryRequest.ALL:
        fields["memory"] = ALL
    elif resources.memory_request is MemoryRequest.AMOUNT:
        fields["memory"] = format_memory(resources.memory_bytes)
    if resources.gpu.count:
        fields["gpu"] = resources.gpu.count if resources.gpu.type is None else str(resources.gpu)
    if resources.gres:
        fields["gres"] = dict(resources.gres)
    if resources.sbatch_options:
        fields["sbatch_options"] = list(resources.sbatch_options)
    return fields
