"""Submissions without a platform by slurmrestd and sbatch, at full speed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from aitne.adapters.schedulers._slurm.rest.api_versions import (
    Api,
    choose_api_version,
    parse_served_versions,
)
from aitne.adapters.schedulers._slurm.rest.rest_http_client import RestClient
from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.rest.version_conversion import downgrade_submission
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.adapters.schedulers._slurm.token_mint import TokenMint
from aitne.core.models.resources import Resources
from aitne.core.ports.scheduler import SubmitRequest
from benchmarks.processes import BenchmarkError, Http
from benchmarks.slurm import USER, Slurm

PARALLEL = 4
_SCRIPT = "#!/bin/sh\ntrue\n"
_ENV = {"PATH": "/usr/bin:/bin"}
Submit = Callable[[], None]


def spread(jobs: int, submit: Callable[[], Submit]) -> float:
    """Return the seconds of so many submissions on ``PARALLEL`` threads, each with its own ``submit()``."""
    numbers, start = count(), threading.Barrier(PARALLEL + 1)

    def work() -> None:
        one = submit()
        start.wait()
        while next(numbers) < jobs:
            one()

    with ThreadPoolExecutor(PARALLEL) as pool:
        workers = [pool.submit(work) for _ in range(PARALLEL)]
        start.wait()
        began = time.perf_counter()
        for worker in workers:
            worker.result()
        return time.perf_counter() - began


class Raw:
    """Both ways into one cluster, as ``USER``, with the options that the platform gives its own jobs."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._mint = TokenMint.from_file(slurm.about.jwt_key)
        self._api = asyncio.run(self._negotiate())
        self._port = urlsplit(slurm.about.rest_url).port or 0

    async def _negotiate(self) -> Api:
        client = RestClient(self._slurm.about.rest_url)
        try:
            document = await client.send_request(
                "GET", "/openapi/v3", self._headers(), timeout_s=10
            )
        finally:
            await client.close()
        return choose_api_version(parse_served_versions(document.body))

    def _headers(self) -> dict[str, str]:
        return {"X-SLURM-USER-NAME": USER, "X-SLURM-USER-TOKEN": self._mint.token(USER)}

    def rest(self, job_ids: Callable[[], UUID] = uuid4) -> Submit:
        """Return a function that submits a job over a connection of its own to slurmrestd."""
        http = Http(self._port, self._headers())
        path = f"{self._api.prefix}/job/submit"

        def submit() -> None:
            job = make_submission(self._options(job_ids()), _ENV)
            assert job is not None
            body = {"script": _SCRIPT, "job": downgrade_submission(job, self._api.number)}
            status, answer = http.request("POST", path, json.dumps(body).encode())
            if status != 200 or not json.loads(answer).get("job_id"):
                raise BenchmarkError(f"slurmrestd refused a job: {answer[:300]!r}")

        return submit

    def sbatch(self) -> Submit:
        """Return a function that submits a job by `sbatch`."""

        def submit() -> None:
            self._slurm.run_as(USER, ("sbatch", *self._options(uuid4())), _SCRIPT)

        return submit

    def _options(self, job_id: UUID) -> Sequence[str]:
        request = SubmitRequest(
            job_id=job_id,
            attempt=1,
            owner=USER,
            project=self._slurm.account,
            name="bench",
            script=_SCRIPT,
            job_dir="/tmp",
            resources=Resources(memory_bytes=64 << 20),
            time_limit_s=60,
        )
        return [*make_sbatch_arguments(request, accounting=True)]
