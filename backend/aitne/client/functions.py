"""Functions that run in jobs: submit one, run it for many items, find its future again."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from aitne.client.api_session import ApiSession
    from aitne.client.futures import Future, FutureArray
    from aitne.client.job_watcher import JobWatcher
    from aitne.client.jobs import Jobs
    from aitne.client.records import Job
    from aitne.client.tree_upload import Trees

    T = TypeVar("T")
    Item = TypeVar("Item")


class Functions:
    """Functions that run in jobs, as ``client.functions``."""

    def __init__(self, session: ApiSession, jobs: Jobs, trees: Trees) -> None:
        self._session = session
        self._jobs = jobs
        self._trees = trees
        self._watcher: JobWatcher | None = None

    def submit(
        self,
        fn: Callable[..., T],
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        nodes: int = 1,
        gpus: int | str | None = None,
        ranks_per_node: int | None = None,
        max_duration: str | None = None,
        python: str | None = None,
        sync: str | os.PathLike[str] | None = None,
        **job: Any,
    ) -> Future[T]:
        """Submit a job that calls ``fn(*args, **kwargs)``, and return a future of its result. The
        function and its arguments are pickled and sent with the job.

        Args:
            fn: function to call; on each rank if the job has ranks.
            kwargs: keyword arguments of the call; None: none.
            nodes: number of nodes.
            gpus: GPUs on each node: a number, or a type and number such as ``"a100:2"``.
            ranks_per_node: number of ranks on each node; None: no ranks on a single node; on
                several nodes, one for each GPU, or one without GPUs.
            max_duration: time limit, such as ``"4h"``.
            python: Python interpreter of the job, of the same minor version as this one. None: this
                interpreter in a session or on the platform's machine, unless the job specifies
                software of its own; otherwise ``python3``.
            sync: folder whose files are uploaded with the job; modules in it can be imported.
            job: further fields of a job file.

        In a session, the job inherits project, image or environment, datasets, variables and
        secrets of the session and starts in the current folder, unless arguments specify otherwise.

        Raises:
            InvalidInput: a value cannot be pickled (the message names it) or is too large, or the
                platform rejects the job. Nothing was submitted.
        """
        from aitne.client.function_packaging import FunctionCall
        from aitne.client.futures import Future

        call = FunctionCall(fn, args, kwargs or {}, python=python, sync=sync)
        file = call.make_job_file(
            self._session,
            {
                **job,
                "nodes": nodes,
                "gpus": gpus,
                "ranks_per_node": ranks_per_node,
                "max_duration": max_duration,
            },
        )
        record = self._jobs.create({**file, "tree": call.upload(self._trees)})
        return self._watch_future(Future(self._jobs, record.id))

    def map(
        self,
        fn: Callable[[Item], T],
        items: Iterable[Item],
        *,
        max_parallel: int | None = None,
        nodes: int = 1,
        gpus: int | str | None = None,
        ranks_per_node: int | None = None,
        max_duration: str | None = None,
        python: str | None = None,
        sync: str | os.PathLike[str] | None = None,
        **job: Any,
    ) -> FutureArray[T]:
        """Submit an array job that calls ``fn(item)`` for each item in a task of its own, and
        return the futures in the order of the items.

        ``max_parallel`` is the maximum number of tasks that run at once; None: no limit. Resources
        are those of each task. The other arguments and errors are those of ``submit``.
        """
        from aitne.client.function_packaging import FunctionCall

        call = FunctionCall(fn, (), {}, items=list(items), python=python, sync=sync)
        file = call.make_job_file(
            self._session,
            {
                **job,
                "nodes": nodes,
                "gpus": gpus,
                "ranks_per_node": ranks_per_node,
                "max_duration": max_duration,
            },
        )
        limit = "" if max_parallel is None else f"%{max_parallel}"
        array = f"0-{call.tasks - 1}{limit}"
        record = self._jobs.create({**file, "array": array, "tree": call.upload(self._trees)})
        return self._make_future_array(record.id, call.tasks)

    def future(self, job_id: str) -> Future[Any]:
        """Return the future of a job that ``submit`` or ``map`` created earlier, possibly in
        another process. ``job_id`` is the ID of the job or of a task of an array job.

        Results are pickles, which can execute code when they are loaded; therefore only jobs of the
        client's own user are accepted. Raises ``NotFound``, ``NotAllowed`` for a job of another
        user, and ``InvalidInput`` for an array job.
        """
        from aitne.client.futures import Future
        from aitne.core.errors import InvalidInput

        job = self._get_own_job(job_id)
        if job.is_array:
            raise InvalidInput(
                f"Job {job.name} is an array, which has a future for each task: use `futures`."
            )
        return self._watch_future(Future(self._jobs, job.id))

    def futures(self, job_id: str) -> FutureArray[Any]:
        """Return the futures of an array job that ``map`` created earlier, possibly in another
        process. Raises the errors of ``future``, and ``InvalidInput`` if the job is not an array
        job.
        """
        from aitne.core.errors import InvalidInput

        job = self._get_own_job(job_id)
        first, dash, last = (job.array or "").partition("%")[0].partition("-")
        if not job.is_array or first != "0" or (dash and not last.isdecimal()):
            raise InvalidInput(f"Job {job.name} was not submitted by `map`: use `future`.")
        return self._make_future_array(job.id, int(last or 0) + 1)

    def _get_own_job(self, job_id: str) -> Job:
        from aitne.client.records import CurrentUserRecord
        from aitne.core.errors import NotAllowed

        job = self._jobs.get(job_id)
        me = CurrentUserRecord(self._session.request_json("GET", "/me"))
        if job.owner != me.user.name:
            raise NotAllowed(
                f"Job {job.name} belongs to {job.owner}. Its result is a pickle, which runs code "
                "where it is loaded, so it is only read by its owner."
            )
        return job

    def _watch_future(self, future: Future[T]) -> Future[T]:
        self._get_watcher().watch([future.job_id], [future._set_outcome])
        return future

    def _make_future_array(self, job_id: str, tasks: int) -> FutureArray[Any]:
        from uuid import UUID

        from aitne.client.futures import Future, FutureArray

        # The id of a task is its array job's plus its index plus one (core.jobs.array_tasks).
        ids = [str(UUID(int=UUID(job_id).int + index + 1)) for index in range(tasks)]
        futures: list[Future[Any]] = [Future(self._jobs, task_id) for task_id in ids]
        self._get_watcher().watch(ids, [future._set_outcome for future in futures], job_id)
        return FutureArray(self._jobs, job_id, futures)

    def _get_watcher(self) -> JobWatcher:
        from aitne.client.job_watcher import JobWatcher

        if self._watcher is None:
            self._watcher = JobWatcher(self._session)
        return self._watcher
