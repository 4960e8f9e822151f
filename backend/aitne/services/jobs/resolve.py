"""Resolution of a job file to a specification: defaults are filled in and all limits are checked.

Has no side effects, but reads the files of the catalogue. All problems are reported together, by
field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aitne.core.cluster.capacity import Fit
from aitne.core.cluster.job_limits import max_array_tasks
from aitne.core.cluster.queue_defaults import QueueDefaults
from aitne.core.errors import FieldProblem, InvalidInput, NotFound
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.image import BARE, Image
from aitne.core.models.job import (
    AppSpec,
    DistributedSpec,
    JobSpec,
    JobType,
    RetryPolicy,
)
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_options import EnvironmentOptions, JobOptions, SlurmOptions
from aitne.core.models.node import Cluster
from aitne.core.models.resources import Resources
from aitne.core.models.storage import Area
from aitne.core.models.sweep import SweepSpec
from aitne.core.models.template import Template
from aitne.core.models.tree import TreeUse
from aitne.core.settings import Settings
from aitne.core.sweeps import array_of, expand
from aitne.services.images.choice import ImageChoice, ImageChooser, ImageRequest
from aitne.services.jobs import distributed
from aitne.services.jobs.amounts import cpu_notes, duration_of, resources_of
from aitne.services.jobs.cluster_check import ClusterRequest, Problems, check_array, check_cluster
from aitne.services.jobs.parameters import suggestion
from aitne.services.jobs.placement import placement_problems
from aitne.services.jobs.templates import ExpandedTemplate, TemplateCatalog
from aitne.services.sessions.inactivity import inactivity

DEFAULT_SESSION_TEMPLATE = "jupyterlab"
NOTEBOOK_APP = "jupyterlab"
"""App that an image must have to run notebooks, because it comes with what executes them."""


def resolve(
    file: JobFile,
    *,
    project: str,
    templates: TemplateCatalog,
    chooser: ImageChooser,
    offer: AvailableResources,
    settings: Settings,
    cluster: Cluster,
    longest_s: int | None = None,
) -> tuple[JobSpec, Fit]:
    """Resolve a job file to a complete specification, with the defaults of the template and the
    site.

    Returns the specification, and how the cluster can run it. ``offer`` contains the images,
    datasets and folders that the job can use. ``longest_s`` is the longest time limit in seconds that
    its account and QOS permit; None: any.

    Raises:
        InvalidInput: fields are wrong; there is one problem for each.
    """
    problems = Problems()
    limits = settings.limits
    template = _template(file, templates, problems)
    kind = file.type
    if template is not None and "type" not in file.model_fields_set:
        kind = template.type
    expanded = _expand(file, template, templates, problems)
    _check_kind(file, kind, template, problems)
    _check_source(file, kind, expanded, problems)
    _check_notebook(file, kind, template, problems)
    choice = _choose_image(file, template, project, chooser, offer, problems)
    problems.extend(offer.problems)
    queue = (
        QueueDefaults.of(file.slurm, cluster, longest_s)
        if settings.capabilities.decides_amounts
        else None
    )
    resources = resources_of(file, template, limits, problems, queue=queue, nodes=cluster.nodes)
    limit = duration_of(file, template, limits, problems, queue=queue)
    inactivity_s = inactivity(file, kind, template, settings.idle, problems)
    sweep, array = _sweep(file, kind, template, problems)
    check_array(array, max_array_tasks(settings, cluster), problems)
    _check_slurm(file, settings, problems)
    ranks = _distributed(file, kind, template, expanded, resources, problems)
    problems.extend(placement_problems(file, resources, ranks))
    fitting = check_cluster(
        ClusterRequest(
            project,
            resources,
            limit.seconds if limit.requested else None,
            array,
            file.slurm,
            file.placement,
            choice.use,
        ),
        cluster,
        settings,
        problems,
    )
    problems.check()
    spec = JobSpec(
        **{name: getattr(file, name) for name in JobOptions.model_fields},
        type=kind,
        name=file.name or _default_name(file, template),
        project=project,
        template=template.name if template else None,
        template_version=template.version if template else None,
        parameters=expanded.parameters,
        image=choice.use.reference if choice.use else BARE,
        runtime=choice.runtime,
        image_use=choice.use,
        datasets=offer.datasets,
        home=offer.home,
        areas=offer.areas,
        caches=offer.caches,
        commands=tuple(template.commands if template else file.commands),
        distributed=ranks,
        apps=_apps(template, choice),
        env={**expanded.env, **file.env},
        workdir=file.workdir or expanded.workdir,
        tree=offer.tree,
        resources=resources,
        max_duration_s=limit.seconds,
        max_duration_requested=limit.requested,
        inactivity_duration_s=inactivity_s,
        retry=RetryPolicy(max=file.retry.max, on=frozenset(file.retry.on))
        if file.retry
        else RetryPolicy(),
        array=array,
        sweep=sweep,
    )
    notes = (
        *_notes(spec),
        *_task_notes(spec, settings),
        *filter(None, [limit.note]),
        *cpu_notes(resources, queue),
        *fitting.notes,
        *offer.notes,
    )
    return spec, replace(fitting, notes=notes)


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


def image_reference(file: JobFile, templates: TemplateCatalog) -> str:
    """Return the name of the image that the job requests, directly or through its template."""
    if file.image is not None or (name := template_name(file)) is None:
        return file.image or BARE
    try:
        return templates.get(name).image
    except NotFound:
        return BARE


def template_name(file: JobFile) -> str | None:
    """Return the name of the job's template; for a session without one, the default template."""
    if file.template is None and file.type is JobType.SESSION:
        return DEFAULT_SESSION_TEMPLATE
    return file.template


def _apps(template: Template | None, choice: ImageChoice) -> tuple[AppSpec, ...]:
    """Return the apps of the template, without optional apps that the image does not have."""
    return tuple(
        AppSpec.model_validate(app.model_dump())
        for app in (template.apps if template else ())
        if not app.optional or choice.apps is None or app.name in choice.apps
    )


def _choose_image(
    file: JobFile,
    template: Template | None,
    project: str,
    chooser: ImageChooser,
    offer: AvailableResources,
    problems: Problems,
) -> ImageChoice:
    apps = tuple(app.name for app in template.apps if not app.optional) if template else ()
    if file.notebook is not None and not offer.reference.startswith("/"):
        apps = (NOTEBOOK_APP,)
    request = ImageRequest(
        reference=offer.reference,
        runtime=file.container.runtime,
        project=project,
        apps=apps,
    )
    choice = chooser.choose(request, offer.images)
    if choice.problem is not None:
        problems.extend([choice.problem])
    if request.reference == BARE:
        if file.container.writable or not file.container.network:
            problems.add("container", "without an image there is no container", None, "an image")
    elif file.environment != EnvironmentOptions():
        problems.add(
            "environment",
            f"modules and environments of the node are not visible in the image {request.reference}",
            None,
            "either an image or an environment",
        )
    return choice


def _distributed(
    file: JobFile,
    kind: JobType,
    template: Template | None,
    expanded: ExpandedTemplate,
    resources: Resources,
    problems: Problems,
) -> DistributedSpec | None:
    offered = template.distributed if template is not None else None
    # The nodes of a session or notebook are there for its ranks.
    interactive = kind is JobType.SESSION or file.notebook is not None
    several_nodes = interactive and resources.nodes > 1
    if file.distributed is None and offered is None and not several_nodes:
        return None
    if kind is JobType.SESSION and template is not None and not template.offers_ranks:
        problems.add(
            "distributed",
            f"sessions of template {template.name} have no ranks",
            None,
            "only for jobs, and for sessions with notebooks such as those of jupyterlab",
        )
        return None
    options = file.distributed.model_dump(exclude_unset=True) if file.distributed else {}
    if offered is not None:
        for field in ("ranks_per_node", "backend"):
            name = getattr(offered, f"{field}_from")
            if name in expanded.parameters:
                options.setdefault(field, expanded.parameters[name])
    # A form has no empty number: 0 means that it was omitted.
    options["ranks_per_node"] = options.get("ranks_per_node") or max(1, resources.gpu.count)
    spec = DistributedSpec.model_validate(options)
    problems.extend(distributed.problems(spec, resources))
    return spec


def _sweep(
    file: JobFile, kind: JobType, template: Template | None, problems: Problems
) -> tuple[SweepSpec | None, str | None]:
    """Return the sweep that the job file defines, and the array indices of its tasks; both are None
    without a sweep.
    """
    if file.sweep is None:
        return None, file.array
    if kind is JobType.SESSION:
        problems.add(
            "sweep", "a session is interactive and cannot be a sweep", None, "only for jobs"
        )
    if file.array is not None:
        problems.add("sweep", "a sweep creates the array itself", file.array, "sweep or array")
    template_names = (
        {parameter.name.upper() for parameter in template.parameters} if template else set[str]()
    )
    for name in file.sweep.parameters:
        if name.upper() in template_names:
            problems.add(
                f"sweep.parameters.{name}",
                "the template has a parameter of that name, and both would be one variable",
                name,
                "another name",
            )
    sweep = SweepSpec.of(file.sweep)
    return sweep, array_of(len(expand(sweep)), sweep.max_parallel)


def _check_slurm(file: JobFile, settings: Settings, problems: Problems) -> None:
    if file.slurm != SlurmOptions() and not settings.capabilities.slurm_options:
        problems.add(
            "slurm",
            f"this platform's scheduler is {settings.scheduler}, not Slurm",
            None,
            "no slurm section",
        )


def _template(file: JobFile, templates: TemplateCatalog, problems: Problems) -> Template | None:
    name = template_name(file)
    if name is None:
        return None
    try:
        return templates.get(name)
    except NotFound:
        names = [template.name for template in templates.templates()]
        problems.add(
            "template",
            f"there is no template {name!r}{suggestion(name, names)}",
            name,
            ", ".join(names) or "none",
        )
        # Without its template nothing else can be checked.
        problems.check()
        raise


def _expand(
    file: JobFile, template: Template | None, templates: TemplateCatalog, problems: Problems
) -> ExpandedTemplate:
    if template is not None:
        try:
            return templates.expand(template, file.parameters)
        except InvalidInput as error:
            problems.extend(error.problems)
    else:
        for name, value in file.parameters.items():
            problems.add(f"parameters.{name}", "only a template has parameters", value, "none")
    return ExpandedTemplate({}, {}, None)


def _check_kind(
    file: JobFile, kind: JobType, template: Template | None, problems: Problems
) -> None:
    if template is None:
        if not file.commands and file.notebook is None:
            problems.add("commands", "a job without a template needs at least one", None, None)
    else:
        if template.type is not kind:
            problems.add(
                "type", f"template {template.name} is a {template.type}", kind, template.type
            )
        if file.commands:
            problems.add(
                "commands",
                f"template {template.name} has its own; omit these or the template",
                file.commands[0],
                "none with a template",
            )
    for name, value in (("args", file.args[:1]), ("script_path", file.script_path)):
        if value and not file.commands:
            problems.add(name, "the job file has no commands", None, "only with commands")
    if file.aftercorr and file.array is None and file.sweep is None:
        problems.add(
            "aftercorr",
            "only the tasks of an array have corresponding tasks",
            file.aftercorr[0],
            "with array or sweep",
        )
    if kind is JobType.SESSION:
        if not file.container.network:
            problems.add(
                "container.network",
                "without a network the session could not be reached",
                "false",
                "true; false is for jobs",
            )
        if file.array is not None:
            problems.add("array", "a session cannot be an array", file.array, "only for jobs")


def _check_notebook(
    file: JobFile, kind: JobType, template: Template | None, problems: Problems
) -> None:
    if file.notebook is None:
        return
    if kind is JobType.SESSION:
        problems.add("notebook", "in a session its owner runs the notebooks", None, "only for jobs")
    elif template is not None:
        problems.add("notebook", f"template {template.name} has its own commands", None, "neither")
    elif file.commands:
        problems.add("notebook", "the job has commands already", None, "commands or notebook")
    for field in ("array", "sweep"):
        if getattr(file, field) is not None:
            problems.add(field, "a notebook runs once", None, "not with notebook")
    path = file.notebook.path
    if path.startswith(("/", "~")) and (file.tree is not None or file.repo is not None):
        problems.add(
            "notebook.path", "the job runs in other files", path, "a path in the tree or repository"
        )


def _check_source(
    file: JobFile, kind: JobType, expanded: ExpandedTemplate, problems: Problems
) -> None:
    """Add a problem if more than one of tree, repo and workdir is given, as each determines the
    working folder.
    """
    sources = [name for name in ("tree", "repo") if getattr(file, name) is not None]
    if not sources:
        return
    name = sources[0]
    if len(sources) > 1:
        problems.add("repo", "the job has a tree (--sync) already", None, "tree or repo")
    if kind is JobType.SESSION:
        problems.add(name, "a session works in the folders of its owner", None, "only for jobs")
    workdir = file.workdir or expanded.workdir
    if workdir is not None:
        problems.add(
            "workdir", f"the job runs in its {name}", workdir, "no workdir, or a script with cd"
        )


def _default_name(file: JobFile, template: Template | None) -> str:
    if template is not None:
        return template.title
    if file.notebook is not None:
        return file.notebook.path.rpartition("/")[2][:200]
    lines = [line.strip() for line in file.commands[0].splitlines()] if file.commands else []
    texts = [line for line in lines if line and not line.startswith("#")]
    return texts[0][:60].strip() if texts else "job"


def _task_notes(spec: JobSpec, settings: Settings) -> tuple[str, ...]:
    if spec.resources.tasks_per_node is None or settings.capabilities.slurm_options:
        return ()
    return (
        f"srun belongs to Slurm, and this platform's scheduler is {settings.scheduler}: it reserves the "
        "CPUs of the tasks, and the commands run once and must start the tasks themselves.",
    )


_STARTS_TASKS = re.compile(
    r"^[^#\n]*\b(?:srun|mpirun|mpiexec|pdsh|clush|aitne-run)\b", re.MULTILINE
)
"""A command that starts programs on all nodes of a job."""


def _notes(spec: JobSpec) -> tuple[str, ...]:
    notes: list[str] = []
    if spec.distributed is not None:
        notes += distributed.warnings(spec.distributed, spec.resources)
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
    return tuple(notes)
