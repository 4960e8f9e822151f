"""Rendering of jobs for the scheduler: the batch script and the files in the job folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from aitne.core.errors import InvalidInput
from aitne.core.jobs.agent_protocol import (
    NODE_RANK,
    RUN_DIR,
    AgentApp,
    AgentPlacement,
    AgentRanks,
    AgentSetting,
    AgentSpec,
)
from aitne.core.jobs.batch_script import render_script
from aitne.core.jobs.command_arguments import make_argv
from aitne.core.jobs.environment_command import wrap_in_environment
from aitne.core.jobs.job_folder_layout import (
    AGENT_SPEC,
    NOTEBOOK,
    TOKEN,
    TOPOLOGY,
    command_file_name,
)
from aitne.core.jobs.log_path_pattern import remove_backslashes, to_format_string
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.job import AppSpec, Job, JobSpec, JobType, RetryPolicy
from aitne.core.platform.node_software_paths import NodeSoftware
from aitne.core.ports.job_files import JobLocation
from aitne.core.ports.runtime import Runtime
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.sessions.entry_points import WORKSPACE
from aitne.core.settings import Settings
from aitne.core.sweeps import expand_sweep, make_sweep_variables
from aitne.core.units import format_duration
from aitne.services.jobs.job_containers import (
    DATASETS,
    LAB,
    NOTEBOOK_PACKAGE,
    SPAWNER,
    get_agent_workdir,
    list_needed_paths,
    make_agent_tree,
    make_cache_variables,
    make_container_spec,
)
from aitne.services.jobs.rank_variables import (
    has_engines,
    notebook_variables,
    rank_group_variables,
    rank_variables,
)
from aitne.services.jobs.resource_limit_enforcement import split_limits
from aitne.services.jobs.scripts_in_commands import displayed_command, script_files, script_signal
from aitne_train.topology.hostlist import compress_hostlist

ENGINE = "aitne_train.notebook.engine"
"""Module that a rank of a rank group runs."""
_RUN_NOTEBOOK = "aitne.notebook.notebook_run"


class Renderer:
    """Component that converts jobs to what the scheduler and the agent need: the batch script,
    ``agent.json`` and the submission. It has no side effects.
    """

    def __init__(
        self,
        settings: Settings,
        runtimes: Mapping[str, Runtime],
        software: NodeSoftware,
        authority: str | None = None,
    ) -> None:
        """Store the dependencies of the renderer.

        ``authority``: the certificate of the platform's CA (PEM); None if it does not use TLS.
        """
        self._authority = authority
        self._settings = settings
        self._runtimes = runtimes
        self._software = software

    @property
    def agent_command(self) -> tuple[str, ...]:
        """Return the command that starts the agent on nodes, as a list of arguments without the
        agent's options.
        """
        return self._software.agent

    def get_location(self, job: Job) -> JobLocation:
        """Return the location of the job folder and of its files for the current attempt, with the
        account that owns it.
        """
        folder = job.folder or str(self._settings.jobs_dir / str(_run_id(job)))
        return JobLocation(
            job_id=_run_id(job), attempt=job.attempt, folder=folder, account=job.account
        )

    def spare_folder(self, job: Job) -> str | None:
        """Return the folder for the job's files where no space is left in the usual one; None if the
        site has none.
        """
        pattern = self._settings.spare_jobs_dir
        if pattern is None or job.account is None:
            return None
        root = pattern.replace("{user}", job.account).replace("{home}", job.spec.home or "")
        return f"{root}/{_run_id(job)}"

    def script(self, job: Job) -> str:
        """Return the exact batch script of the job's current attempt."""
        return render_script(
            job_id=_run_id(job),
            attempt=job.attempt,
            session=job.type is JobType.SESSION,
            project=job.project,
            resources=job.spec.resources,
            time_limit_s=job.spec.max_duration_s,
            default_time_limit=not job.spec.max_duration_requested,
            array=_get_array_indices(job),
            job_dir=self._job_dir(job),
            agent=self._software.agent,
            placement=_placement_facts(job),
        )

    def agent_spec(self, job: Job) -> AgentSpec:
        """Return the content of ``agent.json``, from which the agent learns what to start.

        Raises:
            InvalidInput: the runtime is no longer available, or it cannot run the image.
        """
        spec = job.spec
        runtime = self._get_runtime(spec)
        by_runtime, by_agent = split_limits(spec)
        folder = self.get_location(job).folder
        box = make_container_spec(job, folder, self._software, by_runtime)
        return AgentSpec(
            job_id=_run_id(job),
            attempt=job.attempt,
            platform_url=self._settings.agents_url,
            authority=self._authority,
            commands=(
                *(
                    wrap_in_environment(spec.environment, (*self._make_spawner_command(job), *argv))
                    for argv in self._list_program_commands(job, runtime)
                ),
                *(() if spec.distributed else self._make_notebook_commands(job, runtime)),
            ),
            leader=self._make_leader_command(job, runtime),
            explains_failure=spec.notebook is not None,
            ranks=self._make_agent_ranks(job),
            apps=tuple(self._make_agent_app(job, runtime, app) for app in spec.apps),
            env={
                "SLURM_JOB_NAME": job.name,
                **runtime.list_variables(),
                **make_cache_variables(spec),
                **(spec.image_use.env if spec.image_use else {}),
                **({"AITNE_DATASETS": DATASETS} if spec.image_use else {}),
                **({WORKSPACE: str(spec.lineage or _run_id(job))} if spec.apps else {}),
                **({"SLURM_SUBMIT_DIR": box.workdir} if spec.image_use else {}),
                **spec.env,
                **rank_group_variables(job),
                **notebook_variables(job),
            },
            secrets=bool(spec.secrets),
            path=runtime.list_path_folders(),
            workdir=get_agent_workdir(job, folder, box),
            tree=make_agent_tree(job, folder),
            launch=runtime.make_launch(box),
            needs=list_needed_paths(job),
            datasets={}
            if spec.image_use
            else {dataset.name: dataset.path for dataset in spec.datasets},
            limits=by_agent,
            tmp_dir=str(self._settings.containers.tmp_dir),
            listen=self._settings.session_listen_address,
            inactivity_duration_s=spec.inactivity_duration_s,
            venv=spec.environment.venv,
            conda=spec.environment.conda,
            log_files=tuple(
                to_format_string(remove_backslashes(pattern), {"x": job.name})
                for pattern in spec.log_files
            ),
            settings=_list_sweep_settings(spec),
            script_signal=script_signal(spec),
            placement=AgentPlacement(
                order=spec.placement.order,
                mesh=() if spec.placement.mesh is None else spec.placement.mesh.sizes,
            ),
        )

    def check(self, job: Job) -> None:
        """Check that the job can be rendered.

        Raises ``InvalidInput`` for a folder or an option that no container takes.
        """
        if job.spec.image_use is not None:
            self.agent_spec(job)

    def submit_request(
        self,
        job: Job,
        dependencies: Mapping[str, Sequence[str]],
        token: str,
        network: str | None = None,
    ) -> SubmitRequest:
        """Return the submission of the job's current attempt.

        ``job`` is the row of an array job for a whole array, and the task's own row for a single
        task that is retried. ``dependencies`` are the scheduler IDs of the jobs to wait for, by
        kind of dependency; ``token`` is the job token. ``network`` is the text of a
        ``topology.conf`` for jobs on several nodes; None: Slurm knows the topology, or none is known.
        """
        spec = self.agent_spec(job)
        return SubmitRequest(
            job_id=_run_id(job),
            attempt=job.attempt,
            owner=job.owner,
            account=job.account,
            project=job.project,
            name=job.name,
            session=job.type is JobType.SESSION,
            script=self.script(job),
            files={
                AGENT_SPEC: spec.model_dump_json(indent=1).encode(),
                TOKEN: token.encode(),
                **(
                    {TOPOLOGY: network.encode()} if network and job.spec.resources.nodes > 1 else {}
                ),
                **script_files(job.spec),
                **self._notebook_file(job.spec),
            },
            job_dir=self._job_dir(job),
            resources=job.spec.resources,
            time_limit_s=job.spec.max_duration_s,
            default_time_limit=not job.spec.max_duration_requested,
            array=_get_array_indices(job),
            **{kind: tuple(ids) for kind, ids in dependencies.items()},
            begin_at=job.begins_at,
            hold=job.spec.hold,
            max_requeues=max_requeues(job)
            if self._settings.capabilities.decides_amounts
            else max_requeues(job) or 0,
            nodes=job.spec.placement.node_names,
            exclude=excluded_nodes(job),
            max_leaves=None if job.spec.leaves is None else job.spec.leaves.count,
            max_leaves_wait_s=None if job.spec.leaves is None else job.spec.leaves.wait_s,
            node_paths=job.spec.node_paths,
            slurm=job.spec.slurm,
            command=displayed_command(job, self.get_location(job).folder),
        )

    def _job_dir(self, job: Job) -> str:
        return str(self.get_location(job).directory)

    def _get_runtime(self, spec: JobSpec) -> Runtime:
        runtime = self._runtimes.get(spec.runtime)
        if runtime is None:
            raise InvalidInput.field(
                "image",
                f"{spec.image} needs the runtime {spec.runtime}, which this platform no longer has",
                value=spec.image,
                allowed="an image of another runtime",
            )
        return runtime

    def _list_program_commands(self, job: Job, runtime: Runtime) -> Iterator[Sequence[str]]:
        """Yield the argument vector of each program that the job runs.

        These are its commands; for a rank group, the engine that executes cells; for a session or
        notebook with ranks, the engine on the nodes other than the first.
        """
        spec = job.spec
        if spec.rank_group is not None or has_engines(spec):
            yield self._make_engine_command(spec, runtime)
        for number, command in enumerate(spec.commands):
            yield make_argv(command, f"{self._job_dir(job)}/{command_file_name(number)}", spec.args)

    def _make_spawner_command(self, job: Job, app: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the command prefix that starts the command after it once for each rank of a node;
        empty for a job without ranks.

        Args:
            app: command that is started in addition to the ranks; empty: none.
        """
        spec = job.spec
        if spec.distributed is None:
            return ()
        program = self._software.spawner
        if spec.image_use is not None:
            file = f"{SPAWNER}/{Path(program[-1]).name}"
            program = (spec.image_use.python or "python3", "-I", file)
        beside = json.dumps({"argv": app, "env": rank_variables(job)})
        return (
            *(*program, "node", *(("--app", beside) if app else ())),
            *("--nodes", str(spec.resources.nodes), "--node-rank", NODE_RANK),
            *("--ranks", str(spec.distributed.ranks_per_node), "--run-dir", RUN_DIR),
            # The scheduler decides how long ranks may take to save their work.
            *("--job", str(_run_id(job)), "--grace", "86400"),
            *("--bind-to", spec.placement.bind.value),
            *(("--horovod",) if spec.distributed.horovod else ()),
            # A node may first read a whole image; one that fails ends the wait.
            *(("--timeout", "600") if has_engines(spec) else ()),
            "--",
        )

    def _make_engine_command(self, spec: JobSpec, runtime: Runtime) -> Sequence[str]:
        """Return the command of a rank that executes cells of notebooks. It uses the Python of the
        kernel that started the rank group, or of the notebook's own environment; otherwise the
        Python of sessions.
        """
        python = spec.rank_group.python if spec.rank_group is not None else None
        if spec.notebook is not None and _uses_own_python(spec):
            python = "python"
        return (python or _get_session_python(spec, runtime), self._notebook_package(spec), ENGINE)

    def _notebook_package(self, spec: JobSpec) -> str:
        return NOTEBOOK_PACKAGE if spec.image_use is not None else str(self._software.notebook)

    def _make_notebook_commands(self, job: Job, runtime: Runtime) -> tuple[tuple[str, ...], ...]:
        """Return the command that runs the job's notebook; empty for a job without one."""
        spec = job.spec
        if spec.notebook is None:
            return ()
        return (wrap_in_environment(spec.environment, self._run_notebook(job, runtime)),)

    def _make_leader_command(self, job: Job, runtime: Runtime) -> tuple[str, ...]:
        """Return the command for the first node of a notebook with ranks; empty for other jobs."""
        spec = job.spec
        if spec.notebook is None or spec.distributed is None:
            return ()
        beside = self._make_spawner_command(job, self._run_notebook(job, runtime))
        return wrap_in_environment(
            spec.environment, (*beside, *self._make_engine_command(spec, runtime))
        )

    def _run_notebook(self, job: Job, runtime: Runtime) -> tuple[str, ...]:
        python, package = _get_session_python(job.spec, runtime), self._notebook_package(job.spec)
        return (python, "-I", package, _RUN_NOTEBOOK, self._job_dir(job))

    def _notebook_file(self, spec: JobSpec) -> dict[str, bytes]:
        """Return the file that ``aitne.notebook.notebook_run`` reads; empty for a job without a
        notebook.
        """
        if spec.notebook is None:
            return {}
        request = {
            **spec.notebook.model_dump(mode="json"),
            "in_its_folder": spec.workdir is None,
            "own_python": _uses_own_python(spec),
            "package": self._notebook_package(spec),
        }
        return {NOTEBOOK: json.dumps(request).encode()}

    def _make_agent_ranks(self, job: Job) -> AgentRanks | None:
        spec = job.spec
        chosen = spec.distributed
        if chosen is None:
            return None
        return AgentRanks(
            nodes=spec.resources.nodes,
            ranks_per_node=chosen.ranks_per_node,
            agent=self._software.agent,
            env=rank_variables(job),
        )

    def _make_agent_app(self, job: Job, runtime: Runtime, app: AppSpec) -> AgentApp:
        spec = job.spec
        launcher, notebook = str(self._software.launcher), str(self._software.notebook)
        if spec.image_use is not None:
            launcher, notebook = f"{LAB}/{self._software.launcher.name}", NOTEBOOK_PACKAGE
        # Isolated from PYTHONPATH, which modules and users set for kernels.
        argv: tuple[str, ...] = (
            _get_session_python(spec, runtime),
            "-I",
            launcher,
            "--notebook",
            notebook,
        )
        if spec.distributed is not None:
            argv = (
                *self._make_spawner_command(job, argv),
                *self._make_engine_command(spec, runtime),
            )
        return AgentApp(
            name=app.name,
            kind=app.kind,
            argv=wrap_in_environment(spec.environment, argv),
            readiness_path=app.readiness.path,
            timeout_s=app.readiness.timeout_s,
        )


def _get_session_python(spec: JobSpec, runtime: Runtime) -> str:
    """Return the Python interpreter of a session's server: that of the image, or of the session
    environment.
    """
    # Not just "python": a session must start whatever PATH its user sets.
    environment = runtime.list_variables().get("VIRTUAL_ENV")
    python = "python" if environment is None else str(Path(environment) / "bin" / "python")
    return python if spec.image_use is None else spec.image_use.python or python


def _uses_own_python(spec: JobSpec) -> bool:
    """Return whether the job's notebook runs in an environment of the user."""
    return spec.environment.venv is not None or spec.environment.conda is not None


def _list_sweep_settings(spec: JobSpec) -> tuple[AgentSetting, ...]:
    if spec.sweep is None:
        return ()
    settings = expand_sweep(spec.sweep)
    return tuple(
        AgentSetting(values=setting, env=make_sweep_variables(setting)) for setting in settings
    )


def _placement_facts(job: Job) -> dict[str, str]:
    """Return the constraints on the job's nodes that the batch script shows, by name."""
    placement, leaves = job.spec.placement, job.spec.leaves
    facts = {}
    if placement.nodes:
        facts["nodelist"] = compress_hostlist(placement.node_names)
    if excluded := excluded_nodes(job):
        facts["exclude"] = compress_hostlist(excluded)
    if leaves is not None:
        wait = "" if leaves.wait_s is None else f", waits {format_duration(leaves.wait_s)} for that"
        facts["switches"] = f"at most {leaves.count}{wait}"
    return facts


def excluded_nodes(job: Job) -> tuple[str, ...]:
    """Return the nodes that the job must not run on."""
    return tuple(dict.fromkeys((*job.spec.placement.excluded_names, *job.excluded_nodes)))


def max_requeues(job: Job) -> int | None:
    """Return the number of the job's retries that the scheduler may start itself after a node
    failure; None if it decides, because the job file names no retries.
    """
    policy = job.spec.retry
    if policy == RetryPolicy() and job.type is JobType.JOB and job.spec.rank_group is None:
        return None
    if TerminationReason.NODE_FAILED not in policy.on:
        return 0
    return max(0, policy.max - (job.attempt - 1))


def _run_id(job: Job) -> UUID:
    """Return the ID of the job whose folder and token are used: for an array task, the array job's
    ID.
    """
    return job.array_job_id or job.id


def _get_array_indices(job: Job) -> str | None:
    return job.spec.array if job.array_task_id is None else str(job.array_task_id)
