"""Session with slurmrestd: tokens, API version, and a record of failures during which it is not
used.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aitne.adapters.schedulers._slurm.rest.api_versions import (
    Api,
    choose_api_version,
    parse_served_versions,
)
from aitne.adapters.schedulers._slurm.rest.failed_responses import (
    ENDED_JOB,
    UNKNOWN_JOB,
    classify_failed_submission,
    is_token_refused,
)
from aitne.adapters.schedulers._slurm.rest.rest_http_client import (
    MAX_BODY_BYTES,
    NotReached,
    RestClient,
    RestResponse,
    RestResponseLost,
    RestResponseTooLarge,
)
from aitne.adapters.schedulers._slurm.rest.version_conversion import (
    Record,
    downgrade_submission,
    upgrade_record,
)
from aitne.adapters.schedulers._slurm.submission_failure import (
    SubmissionFailure,
    is_refused_by_slurmctld,
)
from aitne.core.errors import (
    SchedulerRejected,
    SchedulerUnavailable,
    SetupError,
    SubmitUncertain,
)

PROBE_S = 5.0
"""Timeout in seconds of the queries that check whether slurmrestd is usable."""
SUBMIT_S = 30.0
"""Timeout in seconds of a submission: three times Slurm's default MessageTimeout. After a timeout
the platform searches Slurm for the job.
"""
LOOK_UP_S = 10.0
AGAIN_S = 5.0
"""Seconds after a failure during which slurmrestd is not used."""

Headers = Callable[[str | None], Awaitable[Mapping[str, str]]]
"""Function that returns the HTTP headers that authenticate an account; None: the account that reads
the queue.
"""


class TokenRefused(SchedulerUnavailable):
    """Error: slurmrestd or slurmctld rejects the platform's token; the request had no effect."""

    code = "scheduler_token_refused"


class UnknownVersion(SchedulerUnavailable):
    """Error: slurmrestd serves no API version that the platform supports."""

    code = "scheduler_unknown_version"


class NotUnderstood(SchedulerUnavailable):
    """Error: slurmrestd could not parse the submission, which had no effect."""

    code = "scheduler_not_understood"


class RestRefusal(SchedulerRejected):
    """Error: Slurm refused the job, in an answer of slurmrestd. The versions up to v0.0.42 do not
    pass on what a plugin of the site (job_submit) says about it; sbatch prints it.
    """

    def __init__(self, message: str, *, certain: bool, explained: bool) -> None:
        """Store the message. ``certain`` is True if only slurmctld gives this error, and only for a
        job that it does not have; ``explained`` if the message contains the plugin's sentence.
        """
        super().__init__(message)
        self.certain = certain
        self.explained = explained


class RestSession:
    """Client of slurmrestd's API that converts records from and to the internal version. It submits
    a job only if the last query that used a token was answered.

    So a submission is never the first request with a token that Slurm rejects, which 22.05 does not
    distinguish from a lost connection.
    """

    def __init__(
        self,
        client: RestClient,
        headers: Headers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._headers = headers
        self._clock = clock
        self._api: Api | None = None
        self._failure: SchedulerUnavailable | None = None
        self._again_at = 0.0
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections to slurmrestd."""
        await self._client.close()

    async def api(self) -> Api:
        """Return the API version in use, after a check that slurmrestd and the token are usable.

        Raises:
            UnknownVersion: slurmrestd serves no supported version.
            NotReached: slurmrestd cannot be used at this moment.
            TokenRefused: the platform's token was rejected.
        """
        if self._api is not None:
            return self._api
        async with self._opening:
            if self._api is not None:
                return self._api
            if self._failure is not None and self._clock() < self._again_at:
                raise self._failure
            try:
                self._api = await self._negotiate_api()
            except SchedulerUnavailable as error:
                self._record_failure(error)
                raise
            self._failure = None
            return self._api

    async def submit(self, script: str, job: Record, account: str | None) -> str:
        """Submit a job, described in the internal version of records, and return its ID in Slurm.

        Raises:
            RestRefusal: Slurm refused the job; the message is Slurm's.
            SubmitUncertain: the job may be in Slurm.
            NotReached, NotUnderstood: the job did not reach slurmctld and may be submitted by
                sbatch.
            NotExpressible: this API version cannot express the job; sbatch can.
            SchedulerUnavailable: the job is certainly not in Slurm, which accepts no jobs now.
        """
        api = await self.api()
        body = {"script": script, "job": downgrade_submission(job, api.number)}
        headers = await self._headers(account)
        try:
            answer = await self._client.send_request(
                "POST", f"{api.prefix}/job/submit", headers, body=body, timeout_s=SUBMIT_S
            )
        except NotReached as error:
            raise self._record_failure(error) from error
        except RestResponseLost as error:
            self._record_failure(_make_unusable_error(error))
            raise SubmitUncertain(
                f"{error.message} The job may be in Slurm; the platform searches for it before a retry."
            ) from error
        number = answer.body.get("job_id")
        # For an accepted job, 22.05 also reports why it cannot start yet.
        if answer.status < 400 and isinstance(number, int) and number > 0:
            return str(number)
        match classify_failed_submission(answer):
            case SubmissionFailure.REFUSED:
                plugin = " ".join(str(answer.body.get("job_submit_user_msg") or "").split())
                raise RestRefusal(
                    f"{plugin}\n{answer.error_text}" if plugin else answer.error_text,
                    certain=any(
                        is_refused_by_slurmctld(problem.number)
                        for problem in answer.problems
                        if problem.number is not None
                    ),
                    explained=bool(plugin),
                )
            case SubmissionFailure.NOT_NOW:
                raise SchedulerUnavailable(
                    f"Slurm accepts no jobs at the moment: {answer.error_text}."
                )
            case SubmissionFailure.UNREADABLE:
                raise NotUnderstood(f"slurmrestd could not parse the job: {answer.error_text}.")
            case SubmissionFailure.AUTHENTICATION:
                raise self._record_failure(
                    TokenRefused(f"Slurm rejected the token: {answer.error_text}.")
                )
            case SubmissionFailure.UNKNOWN:
                self._record_failure(NotReached(f"slurmrestd reports: {answer.error_text}."))
                raise SubmitUncertain(
                    f"slurmrestd does not know whether Slurm has the job: {answer.error_text}. The platform "
                    "searches for it before a retry."
                )

    async def job(self, scheduler_id: str, account: str | None) -> Sequence[Record]:
        """Return the records of a job and its tasks in the internal version; empty if Slurm does
        not know the job.

        Raises:
            SchedulerUnavailable: slurmrestd or Slurm does not answer.
        """
        api = await self.api()
        answer = await self._send_query(f"{api.prefix}/job/{scheduler_id}", account)
        if {problem.number for problem in answer.problems} & UNKNOWN_JOB:
            return ()
        return self._parse_jobs(answer, api)

    async def jobs(
        self, since: int | None, *, max_bytes: int
    ) -> tuple[int, Sequence[Record]] | None:
        """Return the time of the response (seconds since 1970) and the records of all jobs; None if
        no job has changed since the time ``since`` of an earlier response.

        Raises:
            SchedulerUnavailable: slurmrestd or Slurm does not answer, or the response has more than
                ``max_bytes`` bytes.
        """
        api = await self.api()
        answer = await self._send_query(
            f"{api.prefix}/jobs/",
            None,
            query=None if since is None else {"update_time": since},
            max_bytes=max_bytes,
        )
        made = answer.body.get("last_update")
        at = made.get("number") if isinstance(made, Mapping) and made.get("set") else None
        if answer.status == 304 or (answer.ok and at == 0 and since is not None):
            return None
        if not isinstance(at, int):
            raise SchedulerUnavailable("slurmrestd does not report the time of its list of jobs.")
        return at, self._parse_jobs(answer, api)

    async def count_live_jobs(self) -> int:
        """Return the number of all pending and running jobs in Slurm."""
        api = await self.api()
        answer = await self._send_query(f"{api.prefix}/diag", None)
        statistics = answer.body.get("statistics")
        counts = [
            statistics.get(key) if isinstance(statistics, Mapping) else None
            for key in ("jobs_pending", "jobs_running")
        ]
        if not answer.ok or not all(isinstance(count, int) for count in counts):
            raise SchedulerUnavailable(
                f"slurmrestd does not report the number of jobs: {answer.error_text}."
            )
        return sum(count for count in counts if isinstance(count, int))

    async def cancel(self, scheduler_id: str, account: str | None) -> None:
        """Cancel a job; do nothing if it has ended or is unknown.

        Raises:
            SchedulerUnavailable: whether the job was cancelled is unknown.
            SchedulerRejected: Slurm rejected the request.
        """
        api = await self.api()
        headers = await self._headers(account)
        try:
            answer = await self._client.send_request(
                "DELETE", f"{api.prefix}/job/{scheduler_id}", headers, timeout_s=LOOK_UP_S
            )
        except SchedulerUnavailable as error:
            raise self._record_failure(_make_unusable_error(error)) from error
        # v0.0.42 answers 200 and reports each task that could not be cancelled.
        refused = [
            problem
            for problem in (*answer.problems, *answer.refusals)
            if problem.number not in (*UNKNOWN_JOB, *ENDED_JOB)
        ]
        if refused:
            raise SchedulerRejected("; ".join(problem.text for problem in refused))

    async def _negotiate_api(self) -> Api:
        headers = await self._headers(None)
        try:
            document = await self._client.send_request(
                "GET", "/openapi/v3", headers, timeout_s=PROBE_S
            )
            if document.status == 401:
                raise TokenRefused(f"slurmrestd rejected the token: {document.error_text}.")
            if not document.ok:
                raise NotReached(f"slurmrestd serves no OpenAPI document: {document.error_text}.")
            try:
                api = choose_api_version(parse_served_versions(document.body))
            except SetupError as error:
                raise UnknownVersion(error.message) from error
            # A small query on every cluster; it reaches slurmctld, which alone checks the token.
            answer = await self._client.send_request(
                "GET", f"{api.prefix}/licenses", headers, timeout_s=PROBE_S
            )
        except RestResponseLost as error:
            raise _make_unusable_error(error) from error
        if is_token_refused(answer):
            raise TokenRefused(f"Slurm rejected the token: {answer.error_text}.")
        if not answer.ok:
            raise NotReached(f"slurmrestd does not reach Slurm: {answer.error_text}.")
        return api

    async def _send_query(
        self,
        path: str,
        account: str | None,
        *,
        query: Mapping[str, str | int] | None = None,
        max_bytes: int = MAX_BODY_BYTES,
    ) -> RestResponse:
        headers = await self._headers(account)
        try:
            return await self._client.send_request(
                "GET", path, headers, query=query, timeout_s=LOOK_UP_S, most_bytes=max_bytes
            )
        except RestResponseTooLarge:
            raise
        except SchedulerUnavailable as error:
            raise self._record_failure(_make_unusable_error(error)) from error

    def _parse_jobs(self, answer: RestResponse, api: Api) -> Sequence[Record]:
        jobs = answer.body.get("jobs")
        if not answer.ok or not isinstance(jobs, list):
            if is_token_refused(answer):
                raise self._record_failure(
                    TokenRefused(f"Slurm rejected the token: {answer.error_text}.")
                )
            raise SchedulerUnavailable(f"slurmrestd does not report jobs: {answer.error_text}.")
        return [upgrade_record(job, api.number) for job in jobs if isinstance(job, dict)]

    def _record_failure(self, error: SchedulerUnavailable) -> SchedulerUnavailable:
        self._api = None
        self._failure = error
        self._again_at = self._clock() + AGAIN_S
        return error


def _make_unusable_error(error: SchedulerUnavailable) -> NotReached:
    """Convert the last failure to the error for requests that are not sent because of it."""
    return error if isinstance(error, NotReached) else NotReached(error.message)
