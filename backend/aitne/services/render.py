"""From a job to what the scheduler is given: the script, and the files that lie beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from aitne.core.agent_protocol import AgentApp, AgentSpec
from aitne.core.errors import InvalidInput
from aitne.core.layout import AGENT_SPEC, TOKEN
from aitne.core.models.job import AppSpec, Job, JobSpec, JobType
from aitne.core.node_software import NodeSoftware
from aitne.core.ports.files import JobPlace
from aitne.core.ports.runtime import ContainerSpec, Runtime
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.script import render_script
from aitne.core.settings import Settings
from aitne.core.states import TerminationReason


class Renderer:
    """Pure: turns records into text and bytes, and starts nothing."""

    def __init__(
        self, settings: Settings, runtimes: Mapping[str, Runtime], software: NodeSoftware
    ) -> None:
        self._settings = settings
        self._runtimes = runtimes
        self._software = software

    def images(self) -> dict[str, str]:
        """Every image that can be asked for, with the name of the runtime that serves it."""
        return {
            image: name for name, runtime in self._runtimes.items() for image in runtime.images()
        }

    def place(self, job: Job) -> JobPlace:
        """Where the files of the job's present attempt lie, and whose they are."""
        folder = job.folder or str(self._settings.jobs_dir / str(_run_id(job)))
        return JobPlace(
            job_id=_run_id(job), attempt=job.attempt, folder=folder, account=job.account
        )

    def script(self, job: Job) -> str:
        """The exact batch script of the job's present attempt."""
        return render_script(
            job_id=_run_id(job),
            attempt=job.attempt,
            session=job.type is JobType.SESSION,
            project=job.project,
            resources=job.spec.resources,
            time_limit_s=job.spec.max_duration_s,
            array=_array(job),
            job_dir=self._job_dir(job),
            agent=self._software.agent,
        )

    def agent_spec(self, job: Job) -> AgentSpec:
        """What ``agent.json`` says.

        Raises:
            InvalidInput: the runtime cannot serve the image.
        """
        spec = job.spec
        runtime = self._runtime(spec)
        return AgentSpec(
            job_id=_run_id(job),
            attempt=job.attempt,
            platform_url=self._settings.agents_url,
            commands=tuple(
                tuple(runtime.argv(_container(spec, ("bash", "-c", command))))
                for command in spec.commands
            ),
            apps=tuple(self._app(spec, runtime, app) for app in spec.apps),
            env={**runtime.environment(), **spec.env},
            path=tuple(runtime.path()),
            workdir=spec.workdir or "~",
            listen=self._settings.agent_host,
        )

    def submit_request(self, job: Job, tasks_after: Sequence[str], token: str) -> SubmitRequest:
        """All that the scheduler needs. ``tasks_after`` are scheduler ids that must complete first.

        For an array, give the array job's row; for one task that is tried again, the task's.
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
            files={AGENT_SPEC: spec.model_dump_json(indent=1).encode(), TOKEN: token.encode()},
            job_dir=self._job_dir(job),
            resources=job.spec.resources,
            time_limit_s=job.spec.max_duration_s,
            array=_array(job),
            after=tuple(tasks_after),
            max_requeues=max_requeues(job),
            slurm=job.spec.slurm,
        )

    def _job_dir(self, job: Job) -> str:
        return str(self.place(job).directory)

    def _runtime(self, spec: JobSpec) -> Runtime:
        runtime = self._runtimes.get(spec.runtime)
        if runtime is None:
            raise InvalidInput.field(
                "image",
                f"{spec.image} needs the runtime {spec.runtime}, which this platform no longer has",
                value=spec.image,
                allowed=", ".join(sorted(self.images())),
            )
        return runtime

    def _app(self, spec: JobSpec, runtime: Runtime, app: AppSpec) -> AgentApp:
        # Not just "python": a session must start whatever PATH its user sets.
        environment = runtime.environment().get("VIRTUAL_ENV")
        python = "python" if environment is None else str(Path(environment) / "bin" / "python")
        return AgentApp(
            name=app.name,
            kind=app.kind,
            argv=tuple(runtime.argv(_container(spec, (python, str(self._software.launcher))))),
            readiness_path=app.readiness.path,
            timeout_s=app.readiness.timeout_s,
        )


def max_requeues(job: Job) -> int:
    """How many of the retries the scheduler may spend by itself, when a node fails under the job."""
    policy = job.spec.retry
    if TerminationReason.NODE_FAILED not in policy.on:
        return 0
    return max(0, policy.max - (job.attempt - 1))


def _run_id(job: Job) -> UUID:
    """Whose folder and token it uses: tasks share their array job's."""
    return job.array_job_id or job.id


def _array(job: Job) -> str | None:
    return job.spec.array if job.array_task_id is None else str(job.array_task_id)


def _container(spec: JobSpec, argv: tuple[str, ...]) -> ContainerSpec:
    return ContainerSpec(
        image=spec.image,
        argv=argv,
        env=spec.env,
        workdir=spec.workdir,
        gpus=spec.resources.gpu.count > 0,
    )
