"""From the file a user wrote to what will be run: defaults filled in, every limit checked.

Pure but for the catalogue's files. All that is wrong is reported at once, field by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aitne.core.capacity import Fit, fit
from aitne.core.errors import FieldProblem, InvalidInput, NotFound
from aitne.core.models.job import AppSpec, JobFile, JobSpec, JobType, RetryPolicy, SlurmSpec
from aitne.core.models.node import Cluster
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.models.template import Template, TemplateResources
from aitne.core.queues import choose_queue
from aitne.core.settings import LimitSettings, Settings
from aitne.core.units import format_duration, format_memory, parse_array
from aitne.services.parameters import suggestion
from aitne.services.templates import Expanded, TemplateCatalog

DEFAULT_SESSION_TEMPLATE = "jupyterlab"
FREE = TemplateResources()
"""What holds for a job without a template: its defaults; the only bounds are the platform's."""


@dataclass(slots=True)
class Problems:
    """Collects what is wrong, so that a user sees all of it at once."""

    found: list[FieldProblem] = field(default_factory=list)

    def add(self, name: str, message: str, value: object, allowed: str | None) -> None:
        """Note one."""
        shown = None if value is None else str(value)
        self.found.append(FieldProblem(name, message, shown, allowed))

    def extend(self, problems: Iterable[FieldProblem]) -> None:
        """Note several; a field that already has one keeps that."""
        known = {each.field for each in self.found}
        self.found.extend(each for each in problems if each.field not in known)

    def check(self) -> None:
        """Raises ``InvalidInput`` with all that was noted; passes if nothing was."""
        if self.found:
            raise InvalidInput(
                "; ".join(f"{each.field}: {each.message}" for each in self.found), self.found
            )


def resolve(
    file: JobFile,
    *,
    project: str,
    templates: TemplateCatalog,
    images: Mapping[str, str],
    settings: Settings,
    cluster: Cluster,
) -> tuple[JobSpec, Fit]:
    """What would be run, and how the cluster can serve it. ``images`` maps each to its runtime.

    Raises:
        InvalidInput: with one problem per wrong field.
    """
    problems = Problems()
    limits = settings.limits
    template = _template(file, templates, problems)
    kind = file.type
    if template is not None and "type" not in file.model_fields_set:
        kind = template.type
    expanded = _expand(file, template, templates, problems)
    _check_kind(file, kind, template, problems)
    image = file.image or (template.image if template else "bare")
    if image not in images:
        problems.add(
            "image",
            f"there is no image {image!r}{suggestion(image, images)}",
            image,
            ", ".join(sorted(images)),
        )
    resources = _resources(file, template, limits, problems)
    duration_s = _duration(file, template, limits, problems)
    check_array(file.array, limits, problems)
    slurm = _slurm(file, settings, problems)
    fitting = check_cluster(
        Wish(project, resources, duration_s, file.array, slurm), cluster, settings, problems
    )
    problems.check()
    spec = JobSpec(
        type=kind,
        name=file.name or _default_name(file, template),
        project=project,
        template=template.name if template else None,
        template_version=template.version if template else None,
        parameters=expanded.parameters,
        image=image,
        runtime=images[image],
        commands=tuple(template.commands if template else file.commands),
        apps=tuple(AppSpec.model_validate(app.model_dump()) for app in template.apps)
        if template
        else (),
        env={**expanded.env, **file.env},
        workdir=file.workdir or expanded.workdir,
        resources=resources,
        max_duration_s=duration_s,
        retry=RetryPolicy(max=file.retry.max, on=frozenset(file.retry.on))
        if file.retry
        else RetryPolicy(),
        array=file.array,
        after=tuple(dict.fromkeys(file.after)),
        slurm=slurm,
    )
    return spec, fitting


@dataclass(frozen=True, slots=True)
class Wish:
    """What of a job the cluster has to say something to."""

    project: str
    resources: Resources
    max_duration_s: int
    array: str | None
    slurm: SlurmSpec

    @classmethod
    def of(cls, spec: JobSpec) -> Wish:
        """That of a specification that was accepted once."""
        return cls(spec.project, spec.resources, spec.max_duration_s, spec.array, spec.slurm)


def check_cluster(wish: Wish, cluster: Cluster, settings: Settings, problems: Problems) -> Fit:
    """Note what the cluster could never give: nodes, and what its partition allows."""
    nodes = cluster.nodes
    if settings.on_slurm:
        queue = choose_queue(
            wish.slurm,
            cluster,
            project=wish.project,
            wanted_nodes=wish.resources.nodes,
            max_duration_s=wish.max_duration_s,
            array=wish.array,
            extra_allowed=settings.slurm.extra,
        )
        problems.extend(queue.problems)
        if queue.problems:
            return Fit(False, False)
        nodes = queue.nodes
    fitting = fit(wish.resources, nodes)
    problems.extend(fitting.problems)
    return fitting


def _slurm(file: JobFile, settings: Settings, problems: Problems) -> SlurmSpec:
    if file.slurm is None:
        return SlurmSpec()
    if not settings.on_slurm:
        problems.add(
            "slurm",
            f"this platform's scheduler is {settings.scheduler}, not Slurm",
            None,
            "no slurm section",
        )
    return SlurmSpec.model_validate(file.slurm.model_dump())


def check_array(array: str | None, limits: LimitSettings, problems: Problems) -> None:
    """Note an array with more tasks than the platform allows."""
    if array is not None and (tasks := len(parse_array(array).indices)) > limits.max_array_tasks:
        problems.add(
            "array",
            f"{array} has {tasks} tasks",
            array,
            f"at most {limits.max_array_tasks} tasks",
        )


def check_platform_limits(spec: JobSpec, limits: LimitSettings, problems: Problems) -> None:
    """Note where a specification that was accepted once is beyond the platform's limits now."""
    _most("resources.nodes", spec.resources.nodes, limits.max_nodes, problems)
    if spec.max_duration_s > limits.max_duration:
        problems.add(
            "max_duration",
            "it is longer than this platform allows",
            format_duration(spec.max_duration_s),
            f"at most {format_duration(limits.max_duration)}",
        )
    check_array(spec.array, limits, problems)


def _template(file: JobFile, templates: TemplateCatalog, problems: Problems) -> Template | None:
    name = file.template
    if name is None and file.type is JobType.SESSION:
        name = DEFAULT_SESSION_TEMPLATE
    if name is None:
        return None
    try:
        return templates.get(name)
    except NotFound:
        known = [template.name for template in templates.templates()]
        problems.add(
            "template",
            f"there is no template {name!r}{suggestion(name, known)}",
            name,
            ", ".join(known) or "none",
        )
        # Without its template nothing else can be judged.
        problems.check()
        raise


def _expand(
    file: JobFile, template: Template | None, templates: TemplateCatalog, problems: Problems
) -> Expanded:
    if template is not None:
        try:
            return templates.expand(template, file.parameters)
        except InvalidInput as error:
            problems.extend(error.problems)
    else:
        for name, value in file.parameters.items():
            problems.add(f"parameters.{name}", "only a template has parameters", value, "none")
    return Expanded({}, {}, None)


def _check_kind(
    file: JobFile, kind: JobType, template: Template | None, problems: Problems
) -> None:
    if template is None:
        if not file.commands:
            problems.add("commands", "a job without a template needs at least one", None, None)
    else:
        if template.type is not kind:
            problems.add(
                "type", f"template {template.name} is a {template.type}", kind, template.type
            )
        if file.commands:
            problems.add(
                "commands",
                f"template {template.name} brings its own; leave out these or the template",
                file.commands[0],
                "none with a template",
            )
    if kind is JobType.SESSION:
        if file.array is not None:
            problems.add("array", "a session cannot be an array", file.array, "only for jobs")
        nodes = file.resources.nodes
        if nodes is not None and nodes > 1:
            problems.add("resources.nodes", "a session runs on one node", nodes, "1")


def _resources(
    file: JobFile, template: Template | None, limits: LimitSettings, problems: Problems
) -> Resources:
    asked = file.resources
    offered = template.resources if template else FREE
    nodes = asked.nodes or offered.nodes.default
    cpu = asked.cpu or offered.cpu.default
    memory = asked.memory or offered.memory.default
    gpu = asked.gpu or offered.gpu.default
    if template is not None:
        _within("resources.nodes", nodes, offered.nodes.min, offered.nodes.max, problems)
        _within("resources.cpu", cpu, offered.cpu.min, offered.cpu.max, problems)
        low, high = offered.memory.min, offered.memory.max
        if memory < low or (high is not None and memory > high):
            most = "" if high is None else f", at most {format_memory(high)}"
            problems.add(
                "resources.memory",
                f"template {template.name} does not offer that",
                format_memory(memory),
                f"at least {format_memory(low)}{most}",
            )
        _most("resources.gpu", gpu.count, offered.gpu.max, problems, shown=str(gpu))
    _most("resources.nodes", nodes, limits.max_nodes, problems)
    if gpu.count == 0 and gpu.type is not None:
        gpu = GpuRequest(count=0)
    gres = asked.gres or {}
    return Resources(nodes=nodes, cpu=cpu, memory_bytes=memory, gpu=gpu, gres=gres)


def _within(name: str, value: int, low: int, high: int | None, problems: Problems) -> None:
    if value < low:
        problems.add(name, f"{value} is less than this template takes", value, f"at least {low}")
    _most(name, value, high, problems)


def _most(
    name: str, value: int, most: int | None, problems: Problems, *, shown: str | None = None
) -> None:
    if most is not None and value > most and name not in {each.field for each in problems.found}:
        problems.add(name, f"{value} is more than the limit", shown or value, f"at most {most}")


def _duration(
    file: JobFile, template: Template | None, limits: LimitSettings, problems: Problems
) -> int:
    offered = (template.resources if template else FREE).max_duration
    most = limits.max_duration
    if template is not None and offered.max is not None:
        most = min(most, offered.max)
    if file.max_duration is None:
        return min(offered.default, most)
    if file.max_duration > most:
        problems.add(
            "max_duration",
            "it is longer than allowed",
            format_duration(file.max_duration),
            f"at most {format_duration(most)}",
        )
    return file.max_duration


def _default_name(file: JobFile, template: Template | None) -> str:
    if template is not None:
        return template.title
    first = file.commands[0].strip().splitlines() if file.commands else []
    return first[0][:60].strip() if first else "job"
