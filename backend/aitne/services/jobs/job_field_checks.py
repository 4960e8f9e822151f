"""Checks of a job file. Each compares the file with what the platform offers (``Offer``) and adds
problems; ``admission`` lists them in their order.
"""

from __future__ import annotations

from typing import Literal

from aitne.core.byte_size_format import describe_bytes
from aitne.core.cluster.job_count_limits import max_array_tasks
from aitne.core.jobs.template_parameter_check import format_suggestion
from aitne.core.models.base import OFF
from aitne.core.models.common_job_fields import EnvironmentOptions, SlurmOptions
from aitne.core.models.image import BARE
from aitne.core.models.job import JobType
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import ALL
from aitne.core.models.template import MemoryLimit
from aitne.core.units import format_duration
from aitne.services.jobs import distributed_checks
from aitne.services.jobs.cluster_checks import check_array_size, check_maximum
from aitne.services.jobs.job_file_resolution import Offer, template_name
from aitne.services.jobs.placement_checks import placement_problems
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.requested_resources import resolve_memory
from aitne.services.jobs.session_idle_timeout import max_inactivity


def check_template(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that there is a template of the name that the job file has.

    Raises ``InvalidInput`` if there is none, because nothing else can be checked then.
    """
    name = template_name(file)
    if offer.template is not None or name is None:
        return
    names = [template.name for template in offer.templates.templates()]
    problems.add(
        "template",
        f"there is no template {name!r}{format_suggestion(name, names)}",
        name,
        ", ".join(names) or "none",
    )
    problems.raise_if_any()


def check_template_parameters(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check the values of the template's parameters."""
    problems.extend(offer.parameter_problems)
    if offer.template is None:
        for name, value in file.parameters.items():
            problems.add(f"parameters.{name}", "only a template has parameters", value, "none")


def check_commands(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the job has commands, a notebook or a template, and the type of the template."""
    template = offer.template
    if template is None:
        if not file.commands and file.notebook is None:
            problems.add("commands", "a job without a template needs at least one", None, None)
    else:
        if template.type is not offer.type:
            problems.add(
                "type", f"template {template.name} is a {template.type}", offer.type, template.type
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


def check_type(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the job is an array if fields for arrays are set, and is not a session if fields for
    jobs are set.
    """
    if file.aftercorr and file.array is None and file.sweep is None:
        problems.add(
            "aftercorr",
            "only the tasks of an array have corresponding tasks",
            file.aftercorr[0],
            "with array or sweep",
        )
    if offer.type is JobType.SESSION:
        if not file.container.network:
            problems.add(
                "container.network",
                "without a network the session could not be reached",
                "false",
                "true; false is for jobs",
            )
        if file.array is not None:
            problems.add("array", "a session cannot be an array", file.array, "only for jobs")


def check_source(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that at most one of tree, repo and workdir is given, as each determines the working
    folder.
    """
    sources = [name for name in ("tree", "repo") if getattr(file, name) is not None]
    if not sources:
        return
    name = sources[0]
    if len(sources) > 1:
        problems.add("repo", "the job has a tree (--sync) already", None, "tree or repo")
    if offer.type is JobType.SESSION:
        problems.add(name, "a session works in the folders of its owner", None, "only for jobs")
    workdir = file.workdir or offer.expanded.workdir
    if workdir is not None:
        problems.add(
            "workdir", f"the job runs in its {name}", workdir, "no workdir, or a script with cd"
        )


def check_notebook(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that a notebook is all that the job runs, and that it lies in the job's files."""
    if file.notebook is None:
        return
    if offer.type is JobType.SESSION:
        problems.add("notebook", "in a session its owner runs the notebooks", None, "only for jobs")
    elif offer.template is not None:
        name = offer.template.name
        problems.add("notebook", f"template {name} has its own commands", None, "neither")
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


def check_image(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that an image was found, and that the options of containers are set only with one."""
    if offer.image.problem is not None:
        problems.extend([offer.image.problem])
    reference = offer.available.reference
    if reference == BARE:
        if file.container.writable or not file.container.network:
            problems.add("container", "without an image there is no container", None, "an image")
    elif file.environment != EnvironmentOptions():
        problems.add(
            "environment",
            f"modules and environments of the node are not visible in the image {reference}",
            None,
            "either an image or an environment",
        )


def check_datasets_and_tree(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the datasets and the uploaded tree that the job names are available."""
    problems.extend(offer.available.problems)


def check_amounts(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check the resources against the bounds of the template and of the platform."""
    resources, bounds = offer.resources, offer.bounds
    if offer.template is not None:
        for name, value, limit in (
            ("resources.nodes", resources.nodes, bounds.nodes),
            ("resources.cpu", resources.cpu, bounds.cpu),
        ):
            if value < limit.min:
                message = f"{value} is less than this template takes"
                problems.add(name, message, value, f"at least {limit.min}")
            check_maximum(name, value, limit.max, problems)
        memory = resolve_memory(file.resources, bounds, offer.queue)
        _check_memory(memory, bounds.memory, offer.template.name, problems)
        gpu = resources.gpu
        check_maximum("resources.gpu", gpu.count, bounds.gpu.max, problems, shown=str(gpu))
    check_maximum("resources.nodes", resources.nodes, offer.settings.limits.max_nodes, problems)


def _check_memory(
    memory: int | Literal["all"] | None, limit: MemoryLimit, template: str, problems: Problems
) -> None:
    if memory is None or (memory == ALL and limit.max is None):
        return
    if memory == ALL or memory < limit.min or (limit.max is not None and memory > limit.max):
        upper_bound = "" if limit.max is None else f", at most {describe_bytes(limit.max, 'down')}"
        problems.add(
            "resources.memory",
            f"template {template} does not offer that",
            memory if memory == ALL else describe_bytes(memory),
            f"at least {describe_bytes(limit.min, 'up')}{upper_bound}",
        )


def check_duration(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the time limit is not longer than the template and the platform permit."""
    if file.max_duration is not None and file.max_duration > offer.max_duration_s:
        problems.add(
            "max_duration",
            "it is longer than allowed",
            format_duration(file.max_duration),
            f"at most {format_duration(offer.max_duration_s)}",
        )


def check_inactivity(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that an inactivity duration belongs to a session and is not longer than the template and
    the platform permit.
    """
    requested = file.inactivity_duration
    if requested is None:
        return
    if offer.type is not JobType.SESSION:
        problems.add(
            "inactivity_duration", "a job ends by itself", str(requested), "only for sessions"
        )
        return
    maximum = max_inactivity(offer.bounds.inactivity_duration, offer.settings.idle)
    if maximum is not None and (requested == OFF or int(requested) > maximum):
        problems.add(
            "inactivity_duration",
            "it is longer than allowed",
            OFF if requested == OFF else format_duration(int(requested)),
            f"at most {format_duration(maximum)}",
        )


def check_sweep(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that a sweep belongs to a job without an array, and that its parameters are not those of
    the template.
    """
    if file.sweep is None:
        return
    if offer.type is JobType.SESSION:
        problems.add(
            "sweep", "a session is interactive and cannot be a sweep", None, "only for jobs"
        )
    if file.array is not None:
        problems.add("sweep", "a sweep creates the array itself", file.array, "sweep or array")
    parameters = offer.template.parameters if offer.template else ()
    template_names = {parameter.name.upper() for parameter in parameters}
    for name in file.sweep.parameters:
        if name.upper() in template_names:
            problems.add(
                f"sweep.parameters.{name}",
                "the template has a parameter of that name, and both would be one variable",
                name,
                "another name",
            )


def check_array(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the array does not have more tasks than the platform and the scheduler permit."""
    check_array_size(offer.array, max_array_tasks(offer.settings, offer.cluster), problems)


def check_slurm_is_scheduler(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that options of Slurm are set only if Slurm is the scheduler."""
    if file.slurm != SlurmOptions() and not offer.settings.capabilities.slurm_options:
        problems.add(
            "slurm",
            f"this platform's scheduler is {offer.settings.scheduler}, not Slurm",
            None,
            "no slurm section",
        )


def check_distributed(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the job's ranks can run with its resources, and that its template has ranks."""
    if offer.ranks is not None:
        problems.extend(distributed_checks.find_distributed_problems(offer.ranks, offer.resources))
        return
    template = offer.template
    if offer.type is not JobType.SESSION or template is None or template.offers_ranks:
        return
    if file.distributed is not None or offer.resources.nodes > 1:
        problems.add(
            "distributed",
            f"sessions of template {template.name} have no ranks",
            None,
            "only for jobs, and for sessions with notebooks such as those of jupyterlab",
        )


def check_placement(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that ``placement`` does not contradict the resources, ranks and Slurm options."""
    problems.extend(placement_problems(file.placement, file.slurm, offer.resources, offer.ranks))


def check_cluster(file: JobFile, offer: Offer, problems: Problems) -> None:
    """Check that the cluster could ever run the job."""
    problems.extend(offer.cluster_problems)
