"""Checks of a job whose file has been resolved, or that repeats another job. They read the store and
files; ``admission`` lists them in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aitne.core.cluster.request_fit import Fit
from aitne.core.errors import NotAllowed, NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import Cluster
from aitne.core.models.common_job_fields import DEPENDENCIES
from aitne.core.models.job import Job, JobSpec, JobType
from aitne.core.models.user import Actor
from aitne.core.ports.topology_source import CurrentTopology
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.users.permissions import PolicyAction, describe_session_refusal, require_permission
from aitne.services.jobs.job_input_availability import AvailabilityService
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.rank_group_fit import session_problems
from aitne.services.jobs.rank_python_version import needs_ranks_python, python_problems
from aitne.services.users.user_secrets import UserSecretService
from aitne.store import Store


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Job in which the names of templates, images and other objects are resolved, but whose limits
    are not checked yet.
    """

    actor: Actor
    spec: JobSpec
    account: UnixAccount
    """Unix account that the job is to run as."""
    fitting: Fit
    """How the cluster can run the job."""
    cluster: Cluster
    """State of the cluster with which the job was compared."""
    unseen: list[str] = field(default_factory=list)
    """Sentences for the user about the job's image and datasets, which ``check_files`` adds."""
    after: list[Job] = field(default_factory=list)
    """Jobs that must have ended before it starts, which ``check_dependencies`` adds."""


@dataclass(frozen=True, slots=True)
class CheckSources:
    """Components that the checks ask."""

    store: Store
    secrets: UserSecretService
    topology: CurrentTopology
    offers: AvailabilityService


async def check_secrets(request: JobRequest, sources: CheckSources, problems: Problems) -> None:
    """Check that the user has stored the secrets that the job names."""
    problems.extend(await sources.secrets.list_missing(request.actor.name, request.spec.secrets))


async def check_session(request: JobRequest, sources: CheckSources, problems: Problems) -> None:
    """Check that a rank group can run beside its session."""
    group = request.spec.rank_group
    if group is not None:
        session = await sources.store.get_job(group.session)
        problems.extend(session_problems(request.spec, session, request.fitting.able))


async def check_account(request: JobRequest, sources: CheckSources, problems: Problems) -> None:
    """Check that a project's Slurm account is charged only by members of the project and by
    administrators; each project has a Slurm account of the same name.
    """
    charged, actor = request.spec.slurm.account, request.actor
    if charged is None or charged in actor.projects or actor.is_admin:
        return
    if await sources.store.find_project_status(charged) is not None:
        problems.add(
            "slurm.account",
            f"it is the project {charged}, and you are no member of it",
            charged,
            ", ".join(sorted(actor.projects)),
        )


async def check_session_token(
    request: JobRequest, sources: CheckSources, problems: Problems
) -> None:
    """Check that the job gives the bearer of a session token no more access than the session has.

    With a session token, jobs can neither be further sessions, whose tokens would be valid for
    longer, nor use secrets that the session does not have.

    Raises:
        NotAllowed: the job would be such a session or use such secrets.
    """
    if request.actor.session is None:
        return
    if request.spec.type is JobType.SESSION:
        raise NotAllowed(describe_session_refusal("start another session"))
    own = (await sources.store.get_job(request.actor.session)).spec.secrets
    if other := sorted(set(request.spec.secrets) - set(own)):
        raise NotAllowed(
            describe_session_refusal(
                f"give a job the secrets {', '.join(other)}, which the session lacks"
            )
        )


async def check_ranks_python(
    request: JobRequest, sources: CheckSources, problems: Problems
) -> None:
    """Check that enough nodes have a Python that can run ranks of a notebook."""
    if needs_ranks_python(request.spec):
        pythons = await sources.topology.get_reported_python_versions(request.actor.name)
        problems.extend(python_problems(request.spec, request.fitting.able, pythons))


async def check_files(request: JobRequest, sources: CheckSources, problems: Problems) -> None:
    """Check that the image, the datasets and the paths that the job names can be read.

    Raises:
        InvalidInput: something is missing, unreadable or differs from the catalogue.
    """
    request.unseen.extend(
        await sources.offers.check_files(request.actor, request.spec, request.account)
    )


async def check_dependencies(
    request: JobRequest, sources: CheckSources, problems: Problems
) -> None:
    """Check that the jobs on which it depends are known, and that each dependency can be
    satisfied.
    """
    for kind in DEPENDENCIES:
        for job_id in getattr(request.spec, kind):
            try:
                other = await sources.store.get_job(job_id)
                require_permission(
                    PolicyAction.JOB_READ,
                    request.actor,
                    "job",
                    job_id,
                    owner=other.owner,
                    project=other.project,
                )
            except NotFound:
                problems.add(kind, f"there is no job {job_id}", job_id, "jobs that you may see")
                continue
            if other.is_outside:
                problems.add(
                    kind,
                    f"job {job_id} was submitted outside the platform, which cannot guarantee "
                    "this dependency",
                    job_id,
                    "jobs of the platform",
                )
            _check_dependency(kind, other, problems)
            request.after.append(other)


def _check_dependency(kind: str, job: Job, problems: Problems) -> None:
    """Add a problem if a dependency of this kind on the job can never be satisfied."""
    completed = job.state is JobState.COMPLETED
    if job.delete_requested_at is not None:
        problems.add(kind, f"job {job.id} is being deleted", job.id, "jobs that are kept")
    if kind == "aftercorr" and (not job.is_array or job.spec.retry.max):
        what = (
            "has retries, which are other jobs for the scheduler" if job.is_array else "is no array"
        )
        problems.add(kind, f"job {job.id} {what}", job.id, "array jobs without retries")
    elif kind in ("after", "aftercorr") and job.state.is_terminal and not completed:
        problems.add(
            kind,
            f"job {job.id} ended {job.state}, so this one would never start",
            job.id,
            "jobs that completed or have not ended",
        )
    elif kind == "afternotok" and completed:
        problems.add(
            kind,
            f"job {job.id} completed, so this one would never start",
            job.id,
            "jobs that have not completed",
        )
