"""Admission of jobs: a request becomes a job's specification and rows, or is refused with reasons.

Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from aitne.core.cluster.job_count_limits import max_live_jobs
from aitne.core.cluster.request_fit import Fit
from aitne.core.errors import Conflict, InvalidInput, NotAllowed
from aitne.core.jobs.array_job_state import array_id, make_pending_tasks_id
from aitne.core.jobs.states import JobState
from aitne.core.models.image import BARE
from aitne.core.models.job import Job, JobSpec, RankGroupSpec, ResubmitOptions
from aitne.core.models.job_file import JobFile
from aitne.core.models.user import Actor
from aitne.core.ports.topology_source import CurrentTopology
from aitne.core.ports.unix_account_mapping import Accounts, UnixAccount
from aitne.core.settings import Settings
from aitne.core.units import ArrayRange, parse_array
from aitne.core.users.permissions import PolicyAction, decide_access
from aitne.services.cluster.cluster import ClusterService
from aitne.services.jobs.cluster_checks import ClusterRequest, check_platform_limits, fit_cluster
from aitne.services.jobs.job_field_checks import (
    check_amounts,
    check_array,
    check_cluster,
    check_commands,
    check_datasets_and_tree,
    check_distributed,
    check_duration,
    check_image,
    check_inactivity,
    check_notebook,
    check_placement,
    check_slurm_is_scheduler,
    check_source,
    check_sweep,
    check_template,
    check_template_parameters,
    check_type,
)
from aitne.services.jobs.job_file_resolution import Offer, make_spec, resolve_offer, template_name
from aitne.services.jobs.job_input_availability import AvailabilityService
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.jobs.placement_checks import with_switch_count
from aitne.services.jobs.problems import Problems
from aitne.services.jobs.requested_resources import with_default_amounts
from aitne.services.jobs.resolved_job_checks import (
    CheckSources,
    JobRequest,
    check_account,
    check_dependencies,
    check_files,
    check_ranks_python,
    check_secrets,
    check_session,
    check_session_token,
)
from aitne.services.jobs.resource_limit_enforcement import assign_limit_enforcement
from aitne.services.jobs.template_catalog import TemplateCatalog
from aitne.services.projects.limit_checks import LimitCheck
from aitne.services.users.user_secrets import UserSecretService
from aitne.store import Store
from aitne_train.topology.switch_tree import TopologyTree

NO_ID = UUID(int=0)
"""UUID that stands for the job's ID in the batch script of a plan."""


FileCheck = Callable[[JobFile, Offer, Problems], None]
JobCheck = Callable[[JobRequest, CheckSources, Problems], Awaitable[None]]

CHECKS: tuple[FileCheck, ...] = (
    check_template,
    check_template_parameters,
    check_commands,
    check_type,
    check_source,
    check_notebook,
    check_image,
    check_datasets_and_tree,
    check_amounts,
    check_duration,
    check_inactivity,
    check_sweep,
    check_array,
    check_slurm_is_scheduler,
    check_distributed,
    check_placement,
    check_cluster,
)
"""Checks of a job file, in the order of their problems, which the user sees together."""

NEW_JOB_CHECKS: tuple[JobCheck, ...] = (check_secrets, check_session)
"""Checks of a new job whose file has passed ``CHECKS``; their problems are shown together too."""

JOB_CHECKS: tuple[JobCheck, ...] = (
    check_account,
    check_session_token,
    check_ranks_python,
    check_files,
    check_dependencies,
)
"""Checks of a job that is new or repeats another one; the first that finds problems ends them. The
limits of its project come last, in ``Admission.find_blocking_limit``.
"""


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
        self._sources = CheckSources(store, secrets, topology, offers)

    async def admit(
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
        account = await self._get_unix_account(actor)
        project = await self._resolve_project(actor, file.project, action)
        template = self._templates.find(template_name(file))
        cluster = (await self._cluster.get_snapshot()).cluster
        available = await self._offers.get_available(
            actor,
            project,
            account,
            reference=file.image or (BARE if template is None else template.image),
            datasets=file.datasets,
            tree=file.tree,
        )
        offer = resolve_offer(
            file,
            template,
            available,
            project=project,
            templates=self._templates,
            chooser=self._offers.chooser,
            settings=self._settings,
            cluster=cluster,
            longest_s=await self._limits.longest_s(project, file.slurm, actor.name, account.name),
        )
        problems = Problems()
        for check in CHECKS:
            check(file, offer, problems)
        problems.raise_if_any()
        spec, fitting = make_spec(file, offer)
        if rank_group is not None:
            spec = spec.model_copy(update={"rank_group": rank_group, "commands": ()})
        request = JobRequest(actor, spec, account, fitting, cluster)
        for check_job in NEW_JOB_CHECKS:
            await check_job(request, self._sources, problems)
        problems.raise_if_any()
        return await self._run_checks(request)

    async def readmit(
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
        request, problems = await self.resolve_repetition(actor, old, options)
        problems.raise_if_any()
        if continues:
            lineage = old.spec.lineage or old.id
            spec = request.spec.model_copy(update={"continues": old.id, "lineage": lineage})
            request = replace(request, spec=spec)
        return await self._run_checks(request)

    async def resolve_repetition(
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
        project = await self._resolve_project(actor, old.project, PolicyAction.JOB_CREATE)
        array = old.spec.array if old.array_task_id is None else str(old.array_task_id)
        fresh = {"project": project, "array": array, "continues": None, "lineage": None}
        account = await self._get_unix_account(actor)
        changed_spec = (options or ResubmitOptions()).apply_to(old.spec.model_copy(update=fresh))
        spec, problems = await self._offers.update_spec(actor, changed_spec, account)
        problems.extend(await self._secrets.list_missing(actor.name, spec.secrets))
        cluster = (await self._cluster.get_snapshot()).cluster
        longest_s = await self._limits.longest_s(project, spec.slurm, actor.name, account.name)
        spec = with_default_amounts(spec, self._settings, cluster, longest_s)
        check_platform_limits(spec, self._settings, cluster, problems)
        fitting = fit_cluster(ClusterRequest.from_spec(spec), cluster, self._settings, problems)
        return JobRequest(actor, spec, account, fitting, cluster), problems

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

    async def make_rows(self, actor: Actor, admitted: AdmittedJob) -> tuple[Job, list[Job]]:
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
            "id": make_pending_tasks_id(job.id),
            "array_job_id": job.id,
            "array_task_ids": str(ArrayRange(indices)),
        }
        await self.find_blocking_limit(job)
        return job, [job.model_copy(update=group)] if array else []

    @staticmethod
    def check_live(live: int, rows: tuple[Job, list[Job]], max_jobs: int) -> int:
        """Return the number of live (not ended) jobs and array tasks that a user would have after a
        new job is added.

        Raises ``Conflict`` if that number exceeds ``max_jobs``.

        Args:
            live: number of live jobs and tasks that the user has now.
            rows: result of ``Admission.make_rows`` for the new job. An array counts as one job and each
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

    async def find_blocking_limit(self, job: Job) -> str | None:
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
        problems.raise_if_any()
        return verdict.waits_for

    async def _run_checks(self, request: JobRequest) -> AdmittedJob:
        """Run the checks that new and repeated jobs share."""
        problems = Problems()
        for check in JOB_CHECKS:
            await check(request, self._sources, problems)
            problems.raise_if_any()
        spec, limits = assign_limit_enforcement(request.spec, request.cluster, self._settings)
        fitting = request.fitting
        # Switches do not matter to a job on one node.
        tree = None if spec.resources.nodes == 1 else (await self._topology.get_topology()).tree
        spec, notes = with_switch_count(
            spec, fitting.able, tree, request.cluster, self._settings.capabilities
        )
        return AdmittedJob(
            spec=spec,
            account=request.account,
            fitting=replace(fitting, notes=(*fitting.notes, *notes)),
            tree=tree,
            limits=limits,
            unseen=tuple(request.unseen),
            after=request.after,
            max_live_jobs=max_live_jobs(self._settings, request.cluster),
        )

    async def _get_unix_account(self, actor: Actor) -> UnixAccount:
        # A slow directory service must not block other requests.
        return await asyncio.to_thread(self._accounts.get_account, actor.name)

    async def _resolve_project(self, actor: Actor, name: str | None, action: PolicyAction) -> str:
        project = name or actor.user.default_project
        decision = decide_access(action, actor, project=project)
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
