"""Submissions a second with 4 in parallel: slurmrestd and sbatch as they are, against the adapters.

The part through ``POST /jobs`` needs a platform; this measures what it is compared with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count
from uuid import uuid4

from aitne.adapters.schedulers._slurm.options import options
from aitne.adapters.schedulers._slurm.rest.client import RestClient
from aitne.adapters.schedulers._slurm.rest.steps import lower_submission
from aitne.adapters.schedulers._slurm.rest.submission import describe
from aitne.adapters.schedulers._slurm.rest.versions import negotiate, served
from aitne.adapters.schedulers._slurm.tokens import TokenMint
from aitne.core.dev_cluster import DevCluster, find_dev_cluster
from aitne.core.models.resources import Resources
from aitne.core.ports.scheduler import SubmitRequest
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError
from benchmarks.stats import median

NAME = "slurm_submit"
PARALLEL = 4
_SCRIPT = "#!/bin/sh\ntrue\n"
Submit = Callable[[], Awaitable[None]]


def measure(*, quick: bool) -> Figure:
    """Rounds of each way, in turn. The jobs are held, and cancelled after each round."""
    cluster = find_dev_cluster()
    if cluster is None:
        raise BenchmarkError("there is no cluster: run `sudo aitne dev cluster up` first")
    rounds, jobs = (3, 100) if quick else (10, 400)
    rest, commands = asyncio.run(_rounds(cluster, rounds, jobs))
    rows = [
        Row("slurmrestd", "/s", median(rest)),
        Row("sbatch", "/s", median(commands)),
    ]
    return Figure(
        NAME,
        "Submissions a second, 4 in parallel",
        rows,
        [f"Slurm {cluster.slurm_release}; rounds of {jobs} jobs, the two ways in turn."],
    )


async def _rounds(cluster: DevCluster, rounds: int, jobs: int) -> tuple[list[float], list[float]]:
    user = cluster.users[0]
    client = RestClient(cluster.rest_url)
    mint = TokenMint.from_file(cluster.jwt_key)

    def headers() -> dict[str, str]:
        return {"X-SLURM-USER-NAME": user.name, "X-SLURM-USER-TOKEN": mint.token(user.name)}

    document = await client.ask("GET", "/openapi/v3", headers(), timeout_s=10)
    api = negotiate(served(document.body))

    async def by_rest() -> None:
        job = describe(_options(user.account), {"PATH": "/usr/bin:/bin"})
        assert job is not None
        body = {"script": _SCRIPT, "job": lower_submission(job | {"hold": True}, api.number)}
        path = f"{api.prefix}/job/submit"
        answer = await client.ask("POST", path, headers(), body=body, timeout_s=60)
        if not answer.body.get("job_id"):
            raise BenchmarkError(f"slurmrestd refused a job: {answer.said}")

    async def by_sbatch() -> None:
        identity = ["setpriv", "--reuid", user.name, "--regid", user.name, "--init-groups"]
        await _run(cluster, [*identity, "sbatch", "--hold", *_options(user.account)], _SCRIPT)

    found: dict[Submit, list[float]] = {by_rest: [], by_sbatch: []}
    try:
        for _ in range(rounds):
            for submit, rates in found.items():
                rates.append(await _rate(submit, jobs))
                await _run(cluster, ["scancel", f"--user={user.name}"], "")
    finally:
        await client.close()
    return found[by_rest], found[by_sbatch]


def _options(account: str) -> list[str]:
    request = SubmitRequest(
        job_id=uuid4(),
        attempt=1,
        owner="bench",
        project=account,
        name="bench",
        script=_SCRIPT,
        job_dir="/tmp",
        resources=Resources(memory_bytes=64 << 20),
        time_limit_s=60,
    )
    return [*options(request, accounting=True)]


async def _rate(submit: Submit, jobs: int) -> float:
    numbers = count()

    async def worker() -> None:
        while next(numbers) < jobs:
            await submit()

    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(PARALLEL)))
    return jobs / (time.perf_counter() - started)


async def _run(cluster: DevCluster, argv: list[str], stdin: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *cluster.command_prefix,
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=cluster.environment | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        cwd="/",
    )
    _, said = await process.communicate(stdin.encode())
    if process.returncode != 0:
        raise BenchmarkError(f"{argv[0]} failed: {said.decode()[-300:]}")
