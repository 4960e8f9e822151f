"""Computation of the differences between two jobs. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aitne.core.models.comparison import Cell, Compared, Comparison, Row, Section
from aitne.core.models.job import Job
from aitne.core.models.job_snapshot import Packages, Snapshot
from aitne.core.models.sweep import Scalar
from aitne.core.models.usage_sample import Sample
from aitne.core.sweeps import expand_sweep

_UNITS = {
    "memory_bytes": "bytes",
    "max_duration_s": "seconds",
    "memory_max_bytes": "bytes",
    "gpu_memory_max_bytes": "bytes",
    "gpu_mean": "share",
    "duration_s": "seconds",
    "waited_s": "seconds",
    "diff_bytes": "bytes",
}
_JOB = (
    "type",
    "template",
    "template_version",
    "commands",
    "args",
    "workdir",
    "max_duration_s",
    "array",
)
_FLAT = ("repo", "env", "environment", "container", "distributed", "retry", "slurm")
_TIMES = ("waited_s", "duration_s")
_LONGEST = 2_000
_NOISE = 0.05
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class ComparisonInput:
    """Data about one of the two jobs that are compared."""

    job: Job
    snapshot: Snapshot
    samples: Sequence[Sample] = ()
    """Samples of its resource usage; empty: not measured."""
    values: Mapping[str, float | str] | None = None
    """Last value of each metric that the job recorded; None: it recorded none."""
    image_packages: Mapping[str, str] | None = None
    """Version of each package in the image's software bill; None if there is no software bill."""


def compare_jobs(a: ComparisonInput, b: ComparisonInput) -> Comparison:
    """Return all sections of the comparison in which at least one of the jobs has a value."""
    both = (a, b)
    sections = [
        _compare_values("job", *(_get_job_values(run) for run in both)),
        _compare_values("parameters", *(get_parameter_values(run.job) for run in both)),
        _compare_values("resources", *(_get_resource_values(run) for run in both)),
        _compare_values("code", *(_get_code_values(run) for run in both)),
        _compare_packages(a, b),
        _compare_values("data", *(_get_data_values(run) for run in both)),
        _compare_values("node", *(_get_node_values(run) for run in both)),
        _compare_values("outcome", *(_get_outcome_values(run) for run in both)),
        _compare_values("use", *(_get_usage_values(run) for run in both)),
        _compare_values("metrics", *(dict(run.values or {}) for run in both)),
    ]
    shown = [section for section in sections if section.rows or section.note]
    return Comparison(
        a=_summarize_job(a),
        b=_summarize_job(b),
        differences=sum(not row.equal for section in shown for row in section.rows),
        sections=shown,
    )


def get_parameter_values(job: Job) -> dict[str, Scalar]:
    """Return the values of the template's parameters and, for a task of a sweep, of its parameter
    setting.
    """
    parameters = dict(job.spec.parameters)
    sweep, task = job.spec.sweep, job.array_task_id
    if sweep is not None and task is not None:
        settings = expand_sweep(sweep)
        parameters |= settings[task] if task < len(settings) else {}
    return parameters


def _summarize_job(run: ComparisonInput) -> Compared:
    taken, job = run.snapshot.taken, run.job
    return Compared(
        id=job.id,
        name=job.name,
        owner=job.owner,
        state=job.state,
        created_at=job.created_at,
        array_task_id=job.array_task_id,
        diff=None if taken is None or taken.git is None else taken.git.diff,
    )


def _compare_values(key: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Section:
    rows = []
    for name in [*a, *(name for name in b if name not in a)]:
        first, second = _make_cell(a.get(name)), _make_cell(b.get(name))
        if first is None and second is None:
            continue
        equal = a.get(name) == b.get(name) or (
            (key == "use" or name in _TIMES) and _is_close(first, second)
        )
        rows.append(Row(field=name, a=first, b=second, equal=equal, unit=_UNITS.get(name)))
    return Section(key=key, rows=rows)


def _is_close(a: Cell, b: Cell) -> bool:
    """Return whether the difference of two numbers is within the usual variation between runs of
    one job.
    """
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return False
    return abs(a - b) <= _NOISE * max(abs(a), abs(b))


def _make_cell(value: Any) -> Cell:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _get_job_values(run: ComparisonInput) -> dict[str, Any]:
    spec = run.job.spec.model_dump(mode="json")
    fields: dict[str, Any] = {
        "name": run.job.name,
        "project": run.job.project,
        "owner": run.job.owner,
    }
    fields |= {name: spec[name] or None for name in _JOB}
    fields["commands"] = "\n".join(spec["commands"]) or None
    for part in _FLAT:
        for name, value in (spec[part] or {}).items():
            fields[f"{part}.{name}"] = value if value not in ([], {}) else None
    return fields


def _get_resource_values(run: ComparisonInput) -> dict[str, Any]:
    resources = run.job.spec.resources
    gpu = resources.gpu
    return {
        "nodes": resources.nodes,
        "cpu": resources.cpu,
        "tasks_per_node": resources.tasks_per_node,
        "cpus_per_task": resources.cpus_per_task,
        "memory_bytes": resources.memory_bytes,
        "gpu": (f"{gpu.type}:{gpu.count}" if gpu.type else str(gpu.count)) if gpu.count else None,
        "sbatch_options": ", ".join(resources.sbatch_options) or None,
        **{f"gres.{name}": count for name, count in resources.gres.items()},
    }


def _get_code_values(run: ComparisonInput) -> dict[str, Any]:
    tree = run.job.spec.tree
    if tree is not None:
        return {"commit": tree.commit, "dirty": tree.dirty, "tree": tree.digest}
    taken = run.snapshot.taken
    git = None if taken is None else taken.git
    if git is None:
        return {}
    return {
        "root": git.root,
        "remote": git.remote,
        "branch": git.branch,
        "commit": git.commit,
        "dirty": git.dirty,
        "diff_bytes": git.diff_bytes or None,
        # The text is returned separately; two diffs of the same length may differ.
        "diff": sha256(git.diff.encode()).hexdigest()[:_DIGITS] if git.diff else None,
        "untracked": "\n".join(git.untracked) or None,
    }


def _find_environment(run: ComparisonInput) -> Packages | None:
    return None if run.snapshot.taken is None else run.snapshot.taken.environment


def _compare_packages(a: ComparisonInput, b: ComparisonInput) -> Section:
    lists: list[Mapping[str, str] | None] = []
    for run in (a, b):
        environment = _find_environment(run)
        packages = (
            environment.packages if environment is not None and environment.packages else None
        )
        lists.append(run.image_packages if run.image_packages is not None else packages)
    first, second = lists
    rows = [
        Row(
            field=name,
            a=_find_environment_path(a, name),
            b=_find_environment_path(b, name),
            equal=_find_environment_path(a, name) == _find_environment_path(b, name),
        )
        for name in ("environment", "python", "modules")
        if _find_environment_path(a, name) is not None
        or _find_environment_path(b, name) is not None
    ]
    if first is None or second is None:
        same = first is None and second is None and not rows
        note = None if same else "The packages of one of the two runs are unknown."
        return Section(key="packages", rows=rows, note=note if first is not second else None)
    names = sorted({*first, *second})
    different = [name for name in names if first.get(name) != second.get(name)]
    rows += [
        Row(field=name, a=first.get(name), b=second.get(name), equal=False) for name in different
    ]
    return Section(key="packages", rows=rows, equal_omitted=len(names) - len(different))


def _find_environment_path(run: ComparisonInput, name: str) -> str | None:
    environment = _find_environment(run)
    if name == "modules":
        return " ".join(run.snapshot.modules) or None
    if environment is None:
        return None
    return environment.python if name == "python" else environment.path


def _get_data_values(run: ComparisonInput) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "image": None if run.snapshot.image == "bare" else run.snapshot.image,
        "image_digest": run.snapshot.image_digest,
    }
    return fields | {
        f"dataset {dataset.name}": dataset.version for dataset in run.snapshot.datasets
    }


def _get_node_values(run: ComparisonInput) -> dict[str, Any]:
    fields: dict[str, Any] = {"nodes": " ".join(run.job.nodes) or None}
    fields["partition"] = run.job.partition
    taken = run.snapshot.taken
    if taken is not None and taken.host is not None:
        host = taken.host
        fields |= {
            "system": host.system,
            "kernel": host.kernel,
            "processor": host.cpu,
            "gpu_driver": host.gpu_driver,
        }
    return fields


def _get_outcome_values(run: ComparisonInput) -> dict[str, Any]:
    job = run.job
    began, end = job.started_at, job.ended_at
    return {
        "state": job.state.value,
        "reason": None if job.reason is None else job.reason.value,
        "exit_code": job.exit_code,
        "attempt": job.attempt,
        "waited_s": None if began is None else (began - job.created_at).total_seconds(),
        "duration_s": None if began is None or end is None else (end - began).total_seconds(),
    }


def _get_usage_values(run: ComparisonInput) -> dict[str, Any]:
    """Return mean and maximum resource usage over all nodes and samples; empty without samples."""
    samples = run.samples
    if not samples:
        return {}
    gpus = [gpu for sample in samples for gpu in sample.gpu]
    shares = [float(gpu["utilization"]) for gpu in gpus if gpu.get("utilization") is not None]
    memory = [int(gpu["memory_bytes"]) for gpu in gpus if gpu.get("memory_bytes") is not None]
    return {
        "memory_max_bytes": max(sample.memory_bytes for sample in samples),
        "cpu_mean": round(sum(sample.cpu for sample in samples) / len(samples), 3),
        "cpu_max": round(max(sample.cpu for sample in samples), 3),
        "gpu_mean": round(sum(shares) / len(shares), 4) if shares else None,
        "gpu_memory_max_bytes": max(memory) if memory else None,
    }
