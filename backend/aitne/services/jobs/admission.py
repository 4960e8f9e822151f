"""Admission of jobs: a request becomes a job's specification and rows, or is refused with reasons.

Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from aitne.core.cluster.capacity import Fit
from aitne.core.cluster.job_limits import max_live_jobs
from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.jobs.arrays import array_id, task_group_id
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobSpec, JobType, RankGroupSpec, ResubmitOptions
from aitne.core.models.job_file import JobFile
from aitne.core.models.job_options import DEPENDENCIES
from aitne.core.models.node import Cluster
from aitne.core.models.user import Actor
from aitne.core.ports.accounts import Accounts, UnixAccount
from aitne.core.ports.store import Store
from aitne.core.ports.topology import CurrentTopology
from aitne.core.settings import Settings
from aitne.core.units import ArrayRange, parse_array
from aitne.core.users.policy import PolicyAction, decide, not_in_session, require
from aitne.services.cluster.cluster import ClusterService
from aitne.services.jobs.amounts import with_defaults
from aitne.services.jobs.beside_session import session_problems
from aitne.services.jobs.cluster_check import (
    ClusterRequest,
    Problems,
    check_cluster,
    check_platform_limits,
)
from aitne.services.jobs.enforcement import hold
from aitne.services.jobs.offers import AvailabilityService
from aitne.services.jobs.placement import with_leaves
from aitne.services.jobs.rank_python import needs_ranks_python, python_problems
from aitne.services.jobs.render import Renderer
from aitne.services.jobs.resolve import image_reference, resolve
from aitne.services.jobs.templates import TemplateCatalog
from aitne.services.projects.limits import LimitCheck
from aitne.services.users.secrets import UserSecretService
from aitne_train.topology.tree import TopologyTree

NO_ID = UUID(int=0)
"""UUID that stands for the job's ID in the batch script of a plan."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Job in which the names of templates, images and other objects are resolved, but whose limits
    are not checked yet.
    """

    spec: JobSpec
    account: UnixAccount
    """Unix account that the job is to run as."""
    fitting: Fit
    """How the cluster can run the job."""
    cluster: Cluster
    """State of the cluster with which the job was compared."""


@dataclass(frozen=True, slots=True)
class AdmittedJob:
    """Job that has passed all checks and may be stored."""

    spec: JobSpec
    account: UnixAccount
    fitting: Fit
    limits: tuple[str, ...]
    """Sentences for the user about which component enforces each limit of the job."""
    unseen: tuple[str, ...]
    """Sentences for the user about the job's image and datasets."""
    after: Sequence[Job]
    """Jobs that must have ended before it starts."""
    max_live_jobs: int
    """Maximum number of live jobs and array tasks of the job's owner."""
    tree: TopologyTree | None = None
    """Switches above the nodes of the cluster; None: not known, or the job has one node."""


class Admission:
    """Component that checks jobs before they are stored, both new jobs and repetitions of earlier
    ones.
    """

    def __init__(
        self,
        store: Store,
        templates: TemplateCatalog,
        renderer: Renderer,
        settings: Settings,
        accounts: Accounts,
        cluster: ClusterService,
        limits: LimitCheck,
        offers: AvailabilityService,
        secrets: UserSecretService,
        clock: Callable[[], datetime],
        topology: CurrentTopology,
    ) -> None:
        self._store = store
        self._templates = templates
        self._renderer = renderer
        self._settings = settings
        self._accounts = accounts
        self._cluster = cluster
        self._limits = limits
        self._offers = offers
        self._secrets = secrets
        self._clock = clock
        self._topology = topology

    async def of_file(
        self,
        actor: Actor,
        file: JobFile,
        action: PolicyAction,
        rank_group: RankGroupSpec | None = None,
    ) -> AdmittedJob:
        """Admit the job that a job file describes. With ``rank_group``, its ranks serve a session
        instead of running the commands.

        Raises:
            InvalidInput: a field is wrong; all wrong fields are named. Or the user has no account
                that jobs may run as.
            NotAllowed: the credential may not take the action.
        """
        account = await self._account(actor)
        project = await self._project(actor, file.project, action)
        reference = image_reference(file, self._templates)
        cluster = (await self._cluster.look()).cluster
        spec, fitting = resolve(
            file,
            project=project,
            templates=self._templates,
            chooser=self._offers.chooser,
            offer=await self._offers.of(actor, file, reference, project, account),
            settings=self._settings,
            cluster=cluster,
            longest_s=await self._limits.longest_s(project, file.slurm, actor.name, account.name),
        )
        if rank_group is not None:
            spec = spec.model_copy(update={"rank_group": rank_group, "commands": ()})
        problems = Problems()
        problems.extend(await self._secrets.missing(actor.name, spec.secrets))
        if rank_group is not None:
            session = await self._store.get_job(rank_group.session)
            problems.extend(session_problems(spec, session, fitting.able))
        problems.check()
        return await self._admitted(actor, JobRequest(spec, account, fitting, cluster))

    async def again(
        self,
        actor: Actor,
        old: Job,
        *,
        continues: bool = False,
        options: ResubmitOptions | None = None,
    ) -> AdmittedJob:
        """Admit a job that repeats the job ``old`` with the changes ``options``. With
        ``continues``, the job is a session that also reopens the documents that were open in the
        session ``old``.

        Raises:
            InvalidInput: the job can no longer run, for the reasons in the error, or the actor is
                no longer a member of its project.
            NotAllowed: the credential may not create jobs.
        """
        resolved_job, problems = await self.renewed(actor, old, options)
        problems.check()
        if continues:
            lineage = old.spec.lineage or old.id
            spec = resolved_job.spec.model_copy(update={"continues": old.id, "lineage": lineage})
            resolved_job = replace(resolved_job, spec=spec)
        return await self._admitted(actor, resolved_job)

    async def renewed(
        self, actor: Actor, old: Job, options: ResubmitOptions | None = None
    ) -> tuple[JobRequest, Problems]:
        """Resolve a job that repeats the job ``old`` with the changes ``options``, and return it
        with the problems that prevent it from running.

        Raises:
            Conflict: the job is a rank group, which only its session can start.
            InvalidInput: the actor is no longer a member of the job's project.
            NotAllowed: the credential may not create jobs.
        """
        if old.session_id is not None:
            raise Conflict(
                "A rank group belongs to a session and cannot be resubmitted. Start ranks in a "
                "running session: `%ranks start` in its notebook, or `aitne ranks start`."
            )
        project = await self._project(actor, old.project, PolicyAction.JOB_CREATE)
        array = old.spec.array if old.array_task_id is None else str(old.array_task_id)
        fresh = {"project": project, "array": array, "continues": None, "lineage": None}
        account = await self._account(actor)
        changed_spec = (options or ResubmitOptions()).applied(old.spec.model_copy(update=fresh))
        spec, problems = await self._offers.renew(actor, changed_spec, account)
        problems.extend(await self._secrets.missing(actor.name, spec.secrets))
        cluster = (await self._cluster.look()).cluster
        longest_s = await self._limits.longest_s(project, spec.slurm, actor.name, account.name)
        spec = with_defaults(spec, self._settings, cluster, longest_s)
        check_platform_limits(spec, self._settings, cluster, problems)
        fitting = check_cluster(ClusterRequest.of(spec), cluster, self._settings, problems)
        return JobRequest(spec, account, fitting, cluster), problems

    def draft(self, actor: Actor, admitted: AdmittedJob, job_id: UUID = NO_ID) -> Job:
        """Return the database row of an admitted job without storing it.

        Raises ``InvalidInput`` if the job cannot be written as a batch script.
        """
        spec, account = admitted.spec, admitted.account
        job = Job(
            id=job_id,
            cluster=self._settings.cluster,
            owner=actor.name,
            account=account.name,
            folder=f"{account.folder}/{job_id}",
            project=spec.project,
            type=spec.type,
            name=spec.name,
            spec=spec,
            session_id=None if spec.rank_group is None else spec.rank_group.session,
            state=JobState.PENDING_SUBMIT,
            message="Waits for submission to the scheduler.",
            created_at=self._clock(),
        )
        self._renderer.check(job)
        return job

    async def rows(self, actor: Actor, admitted: AdmittedJob) -> tuple[Job, list[Job]]:
        """Return the database rows to store for an admitted job: its own row, and a list of the
        rows of its tasks.

        The list has one row for an array job, which all its tasks share until they differ, and is
        empty for other jobs.

        Raises:
            InvalidInput: the job could never run within its project's limits.
        """
        array = admitted.spec.array
        indices = parse_array(array).indices if array else ()
        job = self.draft(actor, admitted, array_id(uuid4()) if array else uuid4())
        group = {
            "id": task_group_id(job.id),
            "array_job_id": job.id,
            "array_task_ids": str(ArrayRange(indices)),
        }
        await self.within_limits(job)
        return job, [job.model_copy(update=group)] if array else []

    @staticmethod
    def check_live(live: int, rows: tuple[Job, list[Job]], max_jobs: int) -> int:
        """Return the number of live (not ended) jobs and array tasks that a user would have after a
        new job is added.

        Raises ``Conflict`` if that number exceeds ``max_jobs``.

        Args:
            live: number of live jobs and tasks that the user has now.
            rows: result of ``Admission.rows`` for the new job. An array counts as one job and each
                of its tasks as another.
            max_jobs: maximum number of live jobs and tasks (``AdmittedJob.max_live_jobs``).
        """
        array = rows[0].spec.array
        new = 1 + (len(parse_array(array).indices) if array else 0)
        if live + new > max_jobs:
            raise Conflict(
                f"You have {live} jobs and tasks that wait or run, and this would add {new}; "
                f"the limit is {max_jobs}. Wait for some to end, or cancel some."
            )
        return live + new

    async def within_limits(self, job: Job) -> str | None:
        """Return the limit of the project or QOS because of which the job would be pending now;
        None if no limit prevents its start.

        Raises:
            InvalidInput: the job could never run within the limits.
        """
        session = None if job.session_id is None else await self._store.get_job(job.session_id)
        beside = None if session is None else session.spec
        verdict = await self._limits.check(job.spec, job.owner, job.account, beside)
        problems = Problems()
        problems.extend(verdict.problems)
        problems.check()
        return verdict.waits_for

    async def _admitted(self, actor: Actor, resolved_job: JobRequest) -> AdmittedJob:
        await self._check_charged(actor, resolved_job.spec)
        await self._check_session_token(actor, resolved_job.spec)
        spec, limits = hold(resolved_job.spec, resolved_job.cluster, self._settings)
        fitting = resolved_job.fitting
        if needs_ranks_python(spec):
            problems = Problems()
            pythons = await self._topology.pythons(actor.name)
            problems.extend(python_problems(spec, fitting.able, pythons))
            problems.check()
        tree = await self._tree(spec)
        spec, notes = with_leaves(
            spec, fitting.able, tree, resolved_job.cluster, self._settings.capabilities
        )
        return AdmittedJob(
            spec=spec,
            account=resolved_job.account,
            fitting=replace(fitting, notes=(*fitting.notes, *notes)),
            tree=tree,
            limits=limits,
            unseen=await self._offers.look(actor, spec, resolved_job.account),
            after=await self._dependencies(actor, spec),
            max_live_jobs=max_live_jobs(self._settings, resolved_job.cluster),
        )

    async def _tree(self, spec: JobSpec) -> TopologyTree | None:
        """Return the tree of switches above the cluster's nodes. None: the job has one node, or no
        tree is known.
        """
        if spec.resources.nodes == 1:
            return None
        return (await self._topology.current()).tree

    async def _check_charged(self, actor: Actor, spec: JobSpec) -> None:
        """Check that a project's Slurm account is charged only by members of the project and by
        administrators; each project has a Slurm account of the same name.

        Raises ``InvalidInput`` if the job names the account of a project of which the actor is not a
        member.
        """
        charged = spec.slurm.account
        if charged is None or charged in actor.projects or actor.is_admin:
            return
        if await self._store.standing(charged) is not None:
            raise InvalidInput.field(
                "slurm.account",
                f"it is the project {charged}, and you are no member of it",
                value=charged,
                allowed=", ".join(sorted(actor.projects)),
            )

    async def _check_session_token(self, actor: Actor, spec: JobSpec) -> None:
        """Check that the job gives the bearer of a session token no more access than the session
        has.

        With a session token, jobs can neither be further sessions, whose tokens would be valid for
        longer, nor use secrets that the session does not have.

        Raises:
            NotAllowed: the job would be such a session or use such secrets.
        """
        if actor.session is None:
            return
        if spec.type is JobType.SESSION:
            raise NotAllowed(not_in_session("start another session"))
        own = (await self._store.get_job(actor.session)).spec.secrets
        if other := sorted(set(spec.secrets) - set(own)):
            raise NotAllowed(
                not_in_session(
                    f"give a job the secrets {', '.join(other)}, which the session lacks"
                )
            )

    async def _account(self, actor: Actor) -> UnixAccount:
        # A slow directory service must not block other requests.
        return await asyncio.to_thread(self._accounts.of, actor.name)

    async def _project(self, actor: Actor, name: str | None, action: PolicyAction) -> str:
        project = name or actor.user.default_project
        decision = decide(action, actor, project=project)
        project_names = actor.projects
        if decision.visible and project not in project_names:
            project_names |= {row.name for row in await self._store.list_projects(visible_to=None)}
        if project not in project_names or not decision.visible:
            raise InvalidInput.field(
                "project",
                f"there is no project {project} that you are a member of",
                value=project,
                allowed=", ".join(sorted(project_names))
                or "none: ask an administrator to add you to one",
            )
        if not decision.allowed:
            raise NotAllowed(decision.reason)
        return project

    async def _dependencies(self, actor: Actor, spec: JobSpec) -> Sequence[Job]:
        """Return the jobs that the new job depends on.

        Raises ``InvalidInput`` if one is unknown or a dependency can never be satisfied.
        """
        problems = Problems()
        dependencies = []
        for kind in DEPENDENCIES:
            for job_id in getattr(spec, kind):
                try:
                    job = await self._store.get_job(job_id)
                    require(
                        PolicyAction.JOB_READ,
                        actor,
                        "job",
                        job_id,
                        owner=job.owner,
                        project=job.project,
                    )
                except NotFound:
                    problems.add(kind, f"there is no job {job_id}", job_id, "jobs that you may see")
                    continue
                if job.is_outside:
                    problems.add(
                        kind,
                        f"job {job_id} was submitted outside the platform, which cannot guarantee "
                        "this dependency",
                        job_id,
                        "jobs of the platform",
                    )
                _check_dependency(kind, job, problems)
                dependencies.append(job)
        problems.check()
        return dependencies


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
    elif kind in ("after", "aftercorr") and job.state.terminal and not completed:
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
