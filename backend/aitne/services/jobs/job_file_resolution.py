"""Resolution of a job file to a specification, with the defaults of the template, of the scheduler and
of the site.

Has no side effects. Nothing is checked: ``Admission`` runs its checks on the job file and the ``Offer``
before the specification is made of the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aitne.core.cluster.partition_defaults import QueueDefaults
from aitne.core.cluster.request_fit import Fit
from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.cluster import Cluster
from aitne.core.models.common_job_fields import JobOptions
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import BARE, Image
from aitne.core.models.job import (
    AppSpec,
    DistributedSpec,
    JobSpec,
    JobType,
    RetryPolicy,
    Scalar,
)
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_source import TreeUse
from aitne.core.models.notebook_job import NotebookOptions
from aitne.core.models.resources import Resources
from aitne.core.models.storage_area import Area
from aitne.core.models.sweep import SweepSpec
from aitne.core.models.template import Template, TemplateResources
from aitne.core.settings import Settings
from aitne.core.sweeps import expand_sweep, format_array
from aitne.services.images.image_chooser import ImageChoice, ImageChooser, ImageRequest
from aitne.services.jobs import distributed_checks
from aitne.services.jobs.cluster_checks import ClusterRequest, fit_cluster
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.requested_resources import (
    TimeLimit,
    explain_added_cpus,
    resolve_resources,
    resolve_time_limit,
)
from aitne.services.jobs.session_idle_timeout import resolve_inactivity
from aitne.services.jobs.template_catalog import ExpandedTemplate, TemplateCatalog

DEFAULT_SESSION_TEMPLATE = "jupyterlab"
NOTEBOOK_APP = "jupyterlab"
"""App that an image must have to run notebooks, because it comes with what executes them."""
_NO_TEMPLATE = TemplateResources()
"""Resources of a job without a template; only the platform's limits apply to them."""


@dataclass(frozen=True, slots=True)
class AvailableResources:
    """The images, datasets and folders that a job of this user could use."""

    reference: str = BARE
    """Name of the image that the job requests, directly or through its template."""
    images: Sequence[Image] = ()
    """Images that the user may see; empty if the job requests no image."""
    datasets: tuple[DatasetUse, ...] = ()
    """Versions of the datasets that the job names."""
    tree: TreeUse | None = None
    """Uploaded working tree that the job names; None: it names none, or the tree is not available.
    """
    problems: tuple[FieldProblem, ...] = ()
    """Problems of the datasets and the tree that the job names."""
    home: str | None = None
    """Home folder of the job's account; None: not known."""
    areas: tuple[Area, ...] = ()
    """Storage areas of the user and the project that the job can use."""
    caches: str | None = None
    """Folder for caches; None: the site has configured none."""
    notes: tuple[str, ...] = ()
    """Notes for the user about these folders."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a job file gets from its template, the scheduler, the site and the cluster. The values are
    not checked yet.
    """

    settings: Settings
    cluster: Cluster
    template: Template | None
    """Template of the job; None: it has none, or there is no template of that name."""
    templates: TemplateCatalog
    project: str
    type: JobType
    expanded: ExpandedTemplate
    """Template with the parameters of the job; empty if the job has no template."""
    parameter_problems: Sequence[FieldProblem]
    """Problems of the values of the template's parameters."""
    image: ImageChoice
    available: AvailableResources
    queue: QueueDefaults | None
    """Defaults that the scheduler applies to the job; None: it has none."""
    resources: Resources
    max_duration_s: int
    """Longest time limit in seconds that the template and the platform permit."""
    limit: TimeLimit
    inactivity_duration_s: int | None
    """Seconds without activity after which a session ends; None: there is no limit."""
    sweep: SweepSpec | None
    array: str | None
    """Indices of the array's tasks, also of those of a sweep; None: the job is not an array."""
    ranks: DistributedSpec | None
    """Ranks of the job; None: it is not distributed."""
    fit: Fit
    """How the cluster can run the job."""
    cluster_problems: Sequence[FieldProblem]
    """Reasons why the cluster can never run the job."""

    @property
    def bounds(self) -> TemplateResources:
        """Return the defaults and bounds of the template; without one there are no bounds."""
        return _NO_TEMPLATE if self.template is None else self.template.resources


def resolve_offer(
    file: JobFile,
    template: Template | None,
    available: AvailableResources,
    *,
    project: str,
    templates: TemplateCatalog,
    chooser: ImageChooser,
    settings: Settings,
    cluster: Cluster,
    longest_s: int | None = None,
) -> Offer:
    """Return what the job file gets for the values that it omits.

    Args:
        template: template of the job; None: it has none, or there is no template of that name.
        available: images, datasets and folders that the job can use.
        longest_s: longest time limit in seconds that its account and QOS permit; None: any.
    """
    bounds = _NO_TEMPLATE if template is None else template.resources
    kind = file.type
    if template is not None and "type" not in file.model_fields_set:
        kind = template.type
    expanded, parameter_problems = ExpandedTemplate({}, {}, None), list[FieldProblem]()
    if template is not None:
        try:
            expanded = templates.expand(template, file.parameters)
        except InvalidInput as error:
            parameter_problems = list(error.problems)
    apps = tuple(app.name for app in template.apps if not app.optional) if template else ()
    if file.notebook is not None and not available.reference.startswith("/"):
        apps = (NOTEBOOK_APP,)
    request = ImageRequest(available.reference, file.container.runtime, project, apps)
    image = chooser.choose(request, available.images)
    queue = None
    if settings.capabilities.decides_amounts:
        queue = QueueDefaults.from_options(file.slurm, cluster, longest_s)
    resources = resolve_resources(file.resources, bounds, queue=queue, nodes=cluster.nodes)
    offered = bounds.max_duration
    max_duration_s = min(settings.limits.max_duration, offered.max or settings.limits.max_duration)
    limit = resolve_time_limit(file.max_duration, offered.default, max_duration_s, queue)
    sweep = None if file.sweep is None else SweepSpec.from_file(file.sweep)
    array = (
        file.array if sweep is None else format_array(len(expand_sweep(sweep)), sweep.max_parallel)
    )
    cluster_problems = Problems()
    cluster_request = ClusterRequest(
        project,
        resources,
        limit.seconds if limit.requested else None,
        array,
        file.slurm,
        file.placement,
        image.use,
    )
    return Offer(
        settings=settings,
        cluster=cluster,
        templates=templates,
        template=template,
        project=project,
        type=kind,
        expanded=expanded,
        parameter_problems=parameter_problems,
        image=image,
        available=available,
        queue=queue,
        resources=resources,
        max_duration_s=max_duration_s,
        limit=limit,
        inactivity_duration_s=resolve_inactivity(
            file.inactivity_duration, bounds.inactivity_duration, settings.idle
        )
        if kind is JobType.SESSION
        else None,
        sweep=sweep,
        array=array,
        ranks=_resolve_ranks(file, template, kind, expanded.parameters, resources),
        fit=fit_cluster(cluster_request, cluster, settings, cluster_problems),
        cluster_problems=cluster_problems.found,
    )


def make_spec(file: JobFile, offer: Offer) -> tuple[JobSpec, Fit]:
    """Return the specification of a job file that has passed the checks, and how the cluster can run
    it.
    """
    template, image, available = offer.template, offer.image, offer.available
    spec = JobSpec(
        **{name: getattr(file, name) for name in JobOptions.model_fields},
        type=offer.type,
        name=file.name or _default_name(file.commands, file.notebook, template),
        project=offer.project,
        template=template.name if template else None,
        template_version=template.version if template else None,
        parameters=offer.expanded.parameters,
        image=image.use.reference if image.use else BARE,
        runtime=image.runtime,
        image_use=image.use,
        datasets=available.datasets,
        home=available.home,
        areas=available.areas,
        caches=available.caches,
        commands=tuple(template.commands if template else file.commands),
        distributed=offer.ranks,
        apps=_select_apps(template, image),
        env={**offer.expanded.env, **file.env},
        workdir=file.workdir or offer.expanded.workdir,
        tree=available.tree,
        resources=offer.resources,
        max_duration_s=offer.limit.seconds,
        max_duration_requested=offer.limit.requested,
        inactivity_duration_s=offer.inactivity_duration_s,
        retry=RetryPolicy(max=file.retry.max, on=frozenset(file.retry.on))
        if file.retry
        else RetryPolicy(),
        array=offer.array,
        sweep=offer.sweep,
    )
    notes = (
        *_list_notes(spec, offer.settings),
        *filter(None, [offer.limit.note]),
        *explain_added_cpus(offer.resources, offer.queue),
        *offer.fit.notes,
        *available.notes,
    )
    return spec, replace(offer.fit, notes=notes)


def template_name(file: JobFile) -> str | None:
    """Return the name of the job's template; for a session without one, the default template."""
    if file.template is None and file.type is JobType.SESSION:
        return DEFAULT_SESSION_TEMPLATE
    return file.template


def _select_apps(template: Template | None, image: ImageChoice) -> tuple[AppSpec, ...]:
    """Return the apps of the template, without optional apps that the image does not have."""
    return tuple(
        AppSpec.model_validate(app.model_dump())
        for app in (template.apps if template else ())
        if not app.optional or image.apps is None or app.name in image.apps
    )


def _resolve_ranks(
    file: JobFile,
    template: Template | None,
    kind: JobType,
    parameters: Mapping[str, Scalar],
    resources: Resources,
) -> DistributedSpec | None:
    """Return the ranks of the job; None if it is not distributed, or its template offers none."""
    offered = template.distributed if template is not None else None
    # The nodes of a session or notebook are there for its ranks.
    interactive = kind is JobType.SESSION or file.notebook is not None
    several_nodes = interactive and resources.nodes > 1
    if file.distributed is None and offered is None and not several_nodes:
        return None
    if kind is JobType.SESSION and template is not None and not template.offers_ranks:
        return None
    options = file.distributed.model_dump(exclude_unset=True) if file.distributed else {}
    if offered is not None:
        for field in ("ranks_per_node", "backend"):
            name = getattr(offered, f"{field}_from")
            if name in parameters:
                options.setdefault(field, parameters[name])
    # A form has no empty number: 0 means that it was omitted.
    options["ranks_per_node"] = options.get("ranks_per_node") or max(1, resources.gpu.count)
    return DistributedSpec.model_validate(options)


def _default_name(
    commands: Sequence[str], notebook: NotebookOptions | None, template: Template | None
) -> str:
    if template is not None:
        return template.title
    if notebook is not None:
        return notebook.path.rpartition("/")[2][:200]
    lines = [line.strip() for line in commands[0].splitlines()] if commands else []
    texts = [line for line in lines if line and not line.startswith("#")]
    return texts[0][:60].strip() if texts else "job"


_STARTS_TASKS = re.compile(
    r"^[^#\n]*\b(?:srun|mpirun|mpiexec|pdsh|clush|aitne-run)\b", re.MULTILINE
)
"""A command that starts programs on all nodes of a job."""


def _list_notes(spec: JobSpec, settings: Settings) -> tuple[str, ...]:
    notes: list[str] = []
    if spec.distributed is not None:
        notes += distributed_checks.list_distributed_warnings(spec.distributed, spec.resources)
    elif spec.resources.nodes > 1 and not any(map(_STARTS_TASKS.search, spec.commands)):
        there = (
            "" if spec.image_use is None else ", and the image must have a program for that (srun)"
        )
        notes.append(
            f"The commands run on the first of the {spec.resources.nodes} nodes; "
            f"they must start the programs on the others themselves{there}, or the job file must set "
            "distributed."
        )
    if spec.datasets and spec.image_use is None:
        notes.append(
            "Without an image the datasets are links: only the permissions of the file system protect "
            "them from changes."
        )
    if spec.resources.tasks_per_node is not None and not settings.capabilities.slurm_options:
        notes.append(
            f"srun belongs to Slurm, and this platform's scheduler is {settings.scheduler}: it reserves the "
            "CPUs of the tasks, and the commands run once and must start the tasks themselves."
        )
    return tuple(notes)
