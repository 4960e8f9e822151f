"""Slurm through slurmrestd where that is faster, and through its commands for everything else.

REST submits (2-3 ms, no process), queries single jobs, cancels, and polls a small queue that rarely changes.
Without ``[slurm] rest_url`` only the commands are used. While slurmrestd does not answer, the commands replace
it: for a submission only if it certainly did not reach slurmctld.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from aitne.adapters.command._process import PATH
from aitne.adapters.schedulers._slurm import command_errors, job_comment
from aitne.adapters.schedulers._slurm.commands import environment_of
from aitne.adapters.schedulers._slurm.rest import rest_records
from aitne.adapters.schedulers._slurm.rest.account_headers import AccountHeaders
from aitne.adapters.schedulers._slurm.rest.rest_http_client import NotReached, RestClient
from aitne.adapters.schedulers._slurm.rest.rest_poller import RestPoller
from aitne.adapters.schedulers._slurm.rest.rest_session import (
    NotUnderstood,
    RestRefusal,
    RestSession,
    TokenRefused,
    UnknownVersion,
)
from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.rest.version_conversion import NotExpressible, Record
from aitne.adapters.schedulers._slurm.times import parse_time
from aitne.adapters.schedulers._slurm.token_mint import LIFETIME_S, TokenMint
from aitne.adapters.schedulers.slurm_cli import SlurmCliScheduler
from aitne.core.errors import (
    NotAllowed,
    SchedulerRejected,
    SchedulerUnavailable,
    SetupError,
    SubmitUncertain,
)
from aitne.core.jobs.states import JobState
from aitne.core.ports.scheduler import Run, SchedulerJob, SubmitRequest
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from aitne.core.units import format_duration

log = logging.getLogger(__name__)

_ONE_BY_ONE = 4
"""Maximum number of jobs that are queried one by one through slurmrestd; for more, one squeue is
faster.
"""
_CLOCK = re.compile(r"Configuration data as of (\S+)")
_ODD_CLOCK_S = 20
_MOST_UNANSWERED = 10_000


class SlurmScheduler(SlurmCliScheduler):
    """Implementation of ``core.ports.scheduler.Scheduler`` that submits, polls and cancels by
    slurmrestd where possible; all other methods use Slurm's commands.
    """

    name = "slurm"

    def __init__(self, settings: Settings, tools: Tools) -> None:
        super().__init__(settings, tools)
        # slurmrestd shows the jobs of all users; see ``Site``.
        self._alone = tools.command.alone
        self._rest: RestSession | None = None
        self._watch: RestPoller | None = None
        self._last_warning: str | None = None
        self._unanswered: dict[tuple[UUID, int], None] = {}
        """Attempts that slurmrestd was given without a usable answer. If they are submitted again,
        sbatch does it, whose answers say more.
        """

    async def start(self) -> Sequence[str]:
        """Check that Slurm's commands work and, if ``slurm.rest_url`` is set, query slurmrestd for
        its version and test the platform's token.

        Returns sentences for the administrator about missing or unusual settings. If slurmrestd
        does not answer, one of them says so, and Slurm's commands are used until it answers.

        Raises:
            SetupError: Slurm's commands are missing; the key ``slurm.jwt_key`` cannot be used;
                slurmrestd serves no supported version; or Slurm rejects the platform's token.
        """
        notes = [*await super().start()]
        url, key = self._settings.slurm.rest_url, self._settings.slurm.jwt_key
        if url is None:
            return notes
        mint = None if key is None else TokenMint.from_file(key)
        speaker = AccountHeaders(self._settings, self._commands, mint=mint)
        self._rest = RestSession(RestClient(url), speaker.headers)
        self._watch = None if self._alone else RestPoller(self._rest)
        try:
            await self._rest.api()
        except TokenRefused as error:
            explanation = await self._explain_token_refusal(error)
            if isinstance(explanation, TokenRefused):
                await self.close()
                raise SetupError(explanation.message) from error
            notes.append(_format_rest_not_used(url, explanation))
        except UnknownVersion as error:
            await self.close()
            raise SetupError(error.message) from error
        except SchedulerUnavailable as error:
            notes.append(_format_rest_not_used(url, error))
        return notes

    async def close(self) -> None:
        """Close the connections to slurmrestd."""
        if self._rest is not None:
            await self._rest.close()
            self._rest = None
        await super().close()

    # A request sent to slurmrestd may reach slurmctld as long as its token is valid.
    @property
    def settle_s(self) -> float:
        """Return the seconds after a submission without an answer during which the job may still
        appear in Slurm.
        """
        late = 0.0 if self._settings.slurm.rest_url is None else LIFETIME_S + 5.0
        return max(self._commands_settle_s, late)

    @settle_s.setter
    def settle_s(self, value: float) -> None:
        self._commands_settle_s = value

    async def submit(self, request: SubmitRequest) -> str:
        """Submit the job by REST, or by sbatch if REST cannot express the job or is not available
        at this moment. sbatch also has the last word about a job that Slurm refuses, because only
        sbatch prints what the site's plugins say about it.

        Raises:
            SchedulerRejected: Slurm rejects the job.
            SubmitUncertain: slurmrestd or sbatch gave no answer after the job was sent.
            SchedulerUnavailable: the job was not sent.
        """
        attempt = (request.job_id, request.attempt)
        if self._rest is None or attempt in self._unanswered:
            self._unanswered.pop(attempt, None)
            return await super().submit(request)
        options = (await self._make_sbatch_command(request))[1:]
        try:
            job = make_submission(options, await asyncio.to_thread(self._make_environment, request))
            if job is None:
                return await super().submit(request)
            if request.command:
                # Command= of scontrol; sbatch sets it to the path of the file that it reads, which
                # is not the job's batch script.
                job["argv"] = [*request.command]
            await self._create_files(request)
            return await self._submit_by_rest(self._rest, request, job)
        except (NotExpressible, NotReached, NotUnderstood) as error:
            self._log_warning_once(f"a job is submitted by sbatch: {error}")
            return await super().submit(request)
        except RestRefusal as error:
            if error.explained:
                raise command_errors.make_rejection(error.message, request) from error
            if not error.certain and (number := await self._find_job_id(request)) is not None:
                return number
            return await super().submit(request)
        except NotAllowed as error:
            raise SchedulerRejected(error.message, "account") from error

    async def _find_job_id(self, request: SubmitRequest) -> str | None:
        """Search for a job that slurmrestd has answered about, and return its ID; None if it is
        not in Slurm. slurmctld has processed the request before it answered, so that one search is
        sufficient.

        Raises:
            SubmitUncertain: Slurm does not answer now.
        """
        run = Run(job_id=request.job_id, attempt=request.attempt, account=request.account)
        try:
            rows = await super().find_records([run])
        except SchedulerUnavailable as error:
            raise SubmitUncertain(error.message) from error
        return next((row.scheduler_id.partition("_")[0] for row in rows), None)

    async def _submit_by_rest(self, rest: RestSession, request: SubmitRequest, job: Record) -> str:
        try:
            return await rest.submit(request.script, job, request.account)
        except SubmitUncertain:
            self._site.record_no_answer()
            self._unanswered[request.job_id, request.attempt] = None
            while len(self._unanswered) > _MOST_UNANSWERED:
                del self._unanswered[next(iter(self._unanswered))]
            raise
        except TokenRefused as error:
            raise await self._explain_token_refusal(error) from error

    def _make_environment(self, request: SubmitRequest) -> dict[str, str]:
        """Return the environment that sbatch would pass to the job."""
        conf = self._settings.slurm.conf
        return {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            **({} if conf is None else {"SLURM_CONF": str(conf)}),
            **environment_of(request.account),
        }

    async def find_records(self, runs: Sequence[Run]) -> Sequence[SchedulerJob]:
        """Return the records of these attempts. A few jobs that are not arrays and whose IDs are
        known are queried one by one through slurmrestd; otherwise Slurm's commands are used.
        """
        if self._rest is not None and not self._alone and 0 < len(runs) <= _ONE_BY_ONE:
            try:
                jobs = await self._query_jobs(self._rest, runs)
            except SchedulerUnavailable as error:
                self._log_warning_once(f"jobs are looked up by squeue: {error.message}")
            else:
                if jobs is not None:
                    return jobs
        return await super().find_records(runs)

    async def _query_jobs(
        self, rest: RestSession, runs: Sequence[Run]
    ) -> Sequence[SchedulerJob] | None:
        """Query the jobs one by one; return None if slurmctld no longer holds one of them under its
        ID, or if one is an array or was cancelled (Slurm's commands then give more details).
        """
        jobs: list[SchedulerJob] = []
        for run in runs:
            if run.scheduler_id is None or not run.scheduler_id.isdecimal():
                return None
            rows = [
                row
                for record in await rest.job(run.scheduler_id, None)
                for row in rest_records.to_scheduler_jobs(record)
                if (row.job_id, row.attempt) == (run.job_id, run.attempt)
            ]
            # Only accounting has the account that cancelled a job.
            array = any(row.array_task_id is not None or row.array_task_ids for row in rows)
            plain = len(rows) == 1 and not array
            if not plain or rows[0].state is JobState.CANCELLED:
                return None
            jobs += rows
        return jobs

    async def poll(self) -> Sequence[SchedulerJob]:
        """Return the platform's jobs: through slurmrestd while the queue is small and that is
        cheap, else by one squeue.
        """
        if self._watch is not None and self._rest is not None:
            try:
                rows = await self._watch.poll()
            except SchedulerUnavailable as error:
                self._log_warning_once(f"the queue is read by squeue: {error.message}")
            else:
                if rows is not None:
                    return rows
        return await super().poll()

    async def cancel(self, run: Run) -> None:
        """Cancel through slurmrestd if its record with the run's ID belongs to this job, else by
        scancel.
        """
        # Slurm keeps no record of a cancelled single task of an array unless precautions are taken,
        # which the cancellation by scancel does.
        if self._rest is not None and run.scheduler_id is not None and run.scheduler_id.isdecimal():
            try:
                if await self._cancel_by_rest(self._rest, run, run.scheduler_id):
                    return
            except (SchedulerUnavailable, SchedulerRejected) as error:
                self._log_warning_once(f"a job is cancelled by scancel: {error.message}")
        await super().cancel(run)

    async def _cancel_by_rest(self, rest: RestSession, run: Run, number: str) -> bool:
        """Cancel the job through slurmrestd; return False if Slurm has no job with this ID, or the
        ID belongs to another job.
        """
        matches = await rest.job(number, None)
        name = job_comment.make_job_name(run.job_id, run.attempt)
        if not matches or any(
            record.get("name") != name or run.account not in (None, record.get("user_name"))
            for record in matches
        ):
            return False
        await rest.cancel(number, run.account)
        return True

    async def _explain_token_refusal(self, error: TokenRefused) -> SchedulerUnavailable:
        """Return an error with the probable reason why Slurm rejects the token. Slurm reports no
        reason, but the difference of the clocks may explain it.
        """
        try:
            output = await self._site.run_query("scontrol", "show", "config")
        except SchedulerUnavailable as silent:
            # 22.05 reports the same for a slurmctld that does not answer.
            return NotReached(silent.message)
        match = _CLOCK.search(output)
        theirs = None if match is None else _parse_time(match[1])
        ahead = 0.0 if theirs is None else (datetime.now(UTC) - theirs).total_seconds()
        if abs(ahead) > _ODD_CLOCK_S:
            way = "ahead of" if ahead > 0 else "behind"
            return TokenRefused(
                f"{error.message} The clock here is {format_duration(round(abs(ahead)))} {way} "
                f"slurmctld's, and a token is valid for {LIFETIME_S} s: synchronize the clocks (chrony)."
            )
        key = self._settings.slurm.jwt_key
        return TokenRefused(
            f"{error.message} slurm.jwt_key = {key} must contain the same key as slurmctld's "
            "AuthAltParameters=jwt_key=…, and Slurm must know the account. Or leave "
            "slurm.rest_url unset to use only Slurm's commands."
        )

    def _log_warning_once(self, what: str) -> None:
        """Log a warning, unless it equals the last one."""
        if what != self._last_warning:
            log.warning("slurmrestd: %s", what)
            self._last_warning = what


def _format_rest_not_used(url: str, error: SchedulerUnavailable) -> str:
    return (
        f"slurmrestd at {url} is not used until it answers, only Slurm's commands: {error.message}"
    )


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_time(text) or datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return None
