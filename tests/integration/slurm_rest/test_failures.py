"""A slurmrestd that is down, hangs, breaks off or refuses the token."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers._slurm.rest import rest_session
from aitne.adapters.schedulers._slurm.submission_failure import (
    SubmissionFailure,
    classify_error_number,
    classify_error_text,
)
from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.core.cluster.slurm_settings import SlurmSettings
from aitne.core.errors import SetupError, SubmitUncertain
from aitne.core.jobs.states import JobState
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.core.ports.command import Command, Completed
from aitne.core.ports.scheduler import Run
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.local_system.settings_loader import load_settings
from aitne_devcluster import faults
from tests.integration.slurm_rest.conftest import Open, saying
from tests.support import realtime
from tests.support.ports import reserve_ports
from tests.support.rest_proxy import proxy
from tests.support.schedulers import slurm_tools
from tests.support.slurm import both_releases, run_as

pytestmark = realtime.SLURM


@both_releases
async def test_a_lost_answer_is_uncertain_and_the_job_is_found(
    cluster: DevCluster, bench: Open
) -> None:
    async with proxy(cluster) as url, bench(rest_url=url) as it:
        request = it.request("sleep 30")
        with pytest.raises(SubmitUncertain):
            await it.scheduler.submit(request)
        run = Run(job_id=request.job_id, attempt=1, account=request.account)
        (row,) = await it.scheduler.find_records([run])
        assert (row.job_id, row.account) == (request.job_id, request.account)
        assert it.scheduler.settle_s >= 60
        await it.scheduler.cancel(run)


async def test_a_stopped_slurmrestd_holds_up_nobody_else(
    cluster: DevCluster, bench: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_session, "SUBMIT_S", 1.0)
    monkeypatch.setattr(rest_session, "PROBE_S", 1.0)
    pid = int((cluster.run_dir / "slurmrestd.pid").read_text())
    async with bench() as it:
        os.kill(pid, signal.SIGSTOP)
        try:
            request = it.request("sleep 30")
            with pytest.raises(SubmitUncertain, match="searches for it"):
                await it.scheduler.submit(request)
            # Everything goes on with the commands.
            number, _ = await it.submit("true")
            assert (await it.wait_ended(number)).state is JobState.COMPLETED
        finally:
            os.kill(pid, signal.SIGCONT)
        # It gave the job to Slurm as soon as it could.
        run = Run(job_id=request.job_id, attempt=1, account=request.account)
        assert len(await _found(it, run)) == 1
        await it.scheduler.cancel(run)


async def _found(it: Any, run: Run) -> Sequence[Any]:
    async with asyncio.timeout(60):
        while not (rows := await it.scheduler.find_records([run])):
            await asyncio.sleep(0.1)
    found: Sequence[Any] = rows
    return found


async def test_without_slurmrestd_the_commands_do_it(bench: Open) -> None:
    async with bench(rest_url=f"http://127.0.0.1:{reserve_ports()}") as it:
        number, _ = await it.submit("true")
        assert (await it.wait_ended(number)).state is JobState.COMPLETED
        waiting, _ = await it.submit("sleep 60")
        await it.cancel(waiting)
        assert (await it.wait_ended(waiting)).state is JobState.CANCELLED


def scheduler(cluster: DevCluster, folder: Path, tools: Tools | None = None, **changes: Any) -> Any:
    rest = {"rest_url": cluster.rest_url, "jwt_key": cluster.jwt_key} | changes
    settings = load_settings(
        folder,
        slurm=SlurmSettings(
            conf=cluster.slurm_conf,
            operator=cluster.operator,
            command_prefix=list(cluster.command_prefix),
            **rest,
        ),
    )
    return SlurmScheduler(settings, tools or slurm_tools(cluster, settings))


async def test_scheduler_start_reports_missing_slurmrestd(
    cluster: DevCluster, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{reserve_ports()}"
    it = scheduler(cluster, tmp_path, rest_url=url)
    notes = await it.start()
    assert any(f"slurmrestd at {url} is not used until it answers" in note for note in notes)
    await it.close()


@both_releases
async def test_a_key_that_slurm_does_not_know_is_told_at_start(
    cluster: DevCluster, tmp_path: Path
) -> None:
    key = tmp_path / "jwt.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o400)
    with pytest.raises(SetupError) as caught:
        await scheduler(cluster, tmp_path, jwt_key=key).start()
    assert f"slurm.jwt_key = {key} must contain the same key" in caught.value.message


class Skewed:
    """Commands of a slurmctld whose clock is an hour behind."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.alone = command.alone

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        done = await self._command.run(argv, **options)
        head, _, rest = done.stdout.partition(b"\n")
        word, _, seconds = head.rpartition(b" ")
        if word == b"Configuration data as of":
            return Completed(0, b"%s %d\n%s" % (word, int(seconds) - 3_600, rest), b"")
        return done


async def test_clocks_an_hour_apart_are_told(cluster: DevCluster, tmp_path: Path) -> None:
    key = tmp_path / "jwt.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o400)
    settings = load_settings(tmp_path, slurm=SlurmSettings(operator=cluster.operator))
    real = slurm_tools(cluster, settings)
    it = scheduler(cluster, tmp_path, Tools(Skewed(real.command), real.files), jwt_key=key)
    with pytest.raises(SetupError, match=r"The clock here is 1h\S* ahead of slurmctld's"):
        await it.start()


async def test_a_slurmrestd_of_unknown_versions_is_told(
    cluster: DevCluster, tmp_path: Path
) -> None:
    async with saying(200, {"paths": {"/slurm/v0.0.99/job/submit": {}}}) as url:
        with pytest.raises(SetupError, match=r"API versions: v0\.0\.99; the platform supports"):
            await scheduler(cluster, tmp_path, rest_url=url).start()


ERRORS = """
import ctypes, glob, json
slurm = ctypes.CDLL(glob.glob("/usr/lib/*/slurm-wlm/libslurmfull.so")[0])
slurm.slurm_strerror.restype = ctypes.c_char_p
print(json.dumps({number: slurm.slurm_strerror(number).decode() for number in range(-1, 14_000)}))
"""


@both_releases
def test_every_error_is_judged_alike_by_its_number_and_by_its_text(
    slurm_cluster: DevCluster,
) -> None:
    """slurmrestd gives the number, sbatch the text."""
    texts = json.loads(run_as(slurm_cluster, "root", "python3", "-c", ERRORS))
    known = {int(number): text for number, text in texts.items() if "Unknown error" not in text}
    assert known[2019].startswith("I/O error writing script")
    unlike = {
        f"{number} {text}"
        for number, text in known.items()
        if classify_error_number(number) is not classify_error_text(text)
        and classify_error_number(number) is not SubmissionFailure.UNREADABLE
    }
    assert unlike == set()


@both_releases
async def test_a_slurmctld_without_its_state_has_cancelled_nothing(
    cluster: DevCluster, bench: Open
) -> None:
    """Accounting records what ran as cancelled, but by no user."""
    async with bench() as it:
        number, request = await it.submit("sleep 300")
        await it.running(number)
        run = Run(job_id=request.job_id, attempt=1, account=request.account, scheduler_id=number)
        query = ("sacct", "-nPX", "--allusers", f"--name={it.stand.name_of(request)}", "-oState")

        async def accounted(state: str) -> None:
            async with asyncio.timeout(60):
                while run_as(cluster, cluster.operator, *query).split("\n")[0] != state:
                    await asyncio.sleep(0.2)

        await accounted("RUNNING")
        pid = faults.pid_of(cluster, "slurmctld")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        for path in (cluster.root / "state").glob("job_state*"):
            path.unlink()
        faults.restart_daemon(cluster, "slurmctld")
        await accounted("CANCELLED")
        assert not await it.scheduler.find_records([run])
