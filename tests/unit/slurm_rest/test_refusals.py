"""Failed submissions by REST: judged as those by sbatch are, with the words of the site's plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from aitne.adapters.schedulers._slurm import squeue_parser
from aitne.adapters.schedulers._slurm.rest.rest_http_client import RestClient
from aitne.adapters.schedulers._slurm.rest.rest_session import RestSession
from aitne.adapters.schedulers.slurm import SlurmScheduler
from aitne.core.errors import SchedulerRejected, SchedulerUnavailable, SubmitUncertain
from aitne.core.ports.command import Completed
from aitne.core.ports.scheduler import SubmitRequest
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.core.settings import Settings
from tests.support.files import MemoryFiles
from tests.support.jobs import make_request

RULE = "Projects of group X must use --qos=short. See https://wiki.site"
SBATCH_SAYS = (
    f"sbatch: error: {RULE}\nsbatch: error: Batch job submission failed: Unspecified error"
)
FULL = "I/O error writing script/environment to file"


class Slurm:
    """Slurm's commands and slurmrestd; ``answer`` is what slurmrestd says about submissions."""

    alone = False

    def __init__(self, request: SubmitRequest, answer: httpx.Response | Exception) -> None:
        self.request = request
        self.answer = answer
        self.sbatch = Completed(0, b"7\n", b"")
        self.held = ""
        """ID under which squeue lists the job; empty: it does not."""
        self.down = False
        self.now = 100.0
        """Time of the monotonic clock."""
        self.asked: list[str] = []

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        """Run one of Slurm's commands."""
        self.asked.append(argv[0])
        if argv[0] == "sbatch":
            return self.sbatch
        if self.down and argv[0] == "squeue":
            return Completed(1, b"", b"Unable to contact slurm controller (connect failure)")
        said = self._queue(argv[-2:]) if argv[0] == "squeue" else ""
        if argv[:3] == ["scontrol", "show", "config"] or argv[:3] == ("scontrol", "show", "config"):
            said = "AccountingStorageType   = accounting_storage/slurmdbd\n"
        elif "partition" in argv:
            said = (
                "PartitionName=gpu Default=YES State=UP Nodes=n1 TotalNodes=1 MaxTime=UNLIMITED\n"
            )
        elif "node" in argv:
            said = "NodeName=n1 CPUTot=8 RealMemory=16000 State=IDLE Partitions=gpu\n"
        return Completed(0, said.encode(), b"")

    def _queue(self, words: Sequence[str]) -> str:
        form = next(word for word in words if word.startswith("--Format="))
        mark = form.partition(f"{squeue_parser.FIELDS[-1]}:0")[2]
        facts = dict.fromkeys(squeue_parser.FIELDS, "") | {
            "Comment": f"aitne:{self.request.job_id}:1",
            "JobArrayID": self.held,
            "State": "PENDING",
        }
        return squeue_parser.SEPARATOR.join(facts.values()) + f"{mark}\n" if self.held else ""

    def serve(self, request: httpx.Request) -> httpx.Response:
        """Answer a request to slurmrestd."""
        self.asked.append(f"{request.method} {request.url.path.rpartition('/')[2]}")
        if request.method == "POST":
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        return httpx.Response(200, json={"paths": {"/slurm/v0.0.42/job/submit": {}}})


def error(number: int, text: str, **more: str) -> httpx.Response:
    entry = {"error_number": number, "error": text}
    return httpx.Response(500, json={"errors": [entry], **more})


async def no_headers(_: str | None) -> Mapping[str, str]:
    return {}


@pytest.fixture
def make(tmp_path: Path) -> Any:
    def make_scheduler(answer: httpx.Response | Exception) -> tuple[SlurmScheduler, Slurm]:
        slurm = Slurm(make_request(), answer)
        scheduler = SlurmScheduler(Settings(data_dir=tmp_path), Tools(slurm, MemoryFiles()))
        client = RestClient("http://slurm", transport=httpx.MockTransport(slurm.serve))
        scheduler._rest = RestSession(client, no_headers, clock=lambda: slurm.now)
        return scheduler, slurm

    return make_scheduler


@pytest.mark.parametrize(
    ("number", "text"),
    [(-1, "Unspecified error"), (1, "Operation not permitted"), (2001, "No partition specified")],
)
async def test_a_plugins_refusal_is_told_in_its_own_words(
    make: Any, number: int, text: str
) -> None:
    scheduler, slurm = make(error(number, text))
    slurm.sbatch = Completed(1, b"", SBATCH_SAYS.replace("Unspecified error", text).encode())
    with pytest.raises(SchedulerRejected) as caught:
        await scheduler.submit(slurm.request)
    assert RULE in caught.value.message
    # The next job of anybody is submitted by REST again.
    slurm.answer = httpx.Response(200, json={"job_id": 8})
    assert await scheduler.submit(make_request()) == "8"


async def test_the_words_that_slurmrestd_passes_on_need_no_sbatch(make: Any) -> None:
    scheduler, slurm = make(error(-1, "Unspecified error", job_submit_user_msg=RULE))
    with pytest.raises(SchedulerRejected, match="must use --qos=short"):
        await scheduler.submit(slurm.request)
    assert "sbatch" not in slurm.asked


async def test_an_unspecified_error_of_a_job_that_slurm_has_is_no_refusal(make: Any) -> None:
    scheduler, slurm = make(error(-1, "Unspecified error"))
    slurm.held = "12"
    assert await scheduler.submit(slurm.request) == "12"
    assert "sbatch" not in slurm.asked


async def test_an_unspecified_error_without_a_search_is_uncertain(make: Any) -> None:
    scheduler, slurm = make(error(-1, "Unspecified error"))
    slurm.down = True
    with pytest.raises(SubmitUncertain):
        await scheduler.submit(slurm.request)
    assert "sbatch" not in slurm.asked


@pytest.mark.parametrize(
    "answer",
    [
        httpx.ReadTimeout("late"),
        error(5004, "Socket timed out on send/recv operation"),
        httpx.Response(502, text="<html>bad gateway</html>"),
    ],
)
async def test_a_repeat_after_a_lost_answer_is_submitted_by_sbatch(make: Any, answer: Any) -> None:
    scheduler, slurm = make(answer)
    with pytest.raises(SubmitUncertain):
        await scheduler.submit(slurm.request)
    assert "sbatch" not in slurm.asked, "not before the controller has searched for it"
    slurm.sbatch = Completed(1, b"", SBATCH_SAYS.encode())
    slurm.now += 60  # slurmrestd is used again
    with pytest.raises(SchedulerRejected, match="must use --qos=short"):
        await scheduler.submit(slurm.request)
    slurm.answer = httpx.Response(200, json={"job_id": 8})
    assert await scheduler.submit(make_request()) == "8"


async def test_a_full_state_save_location_is_no_refusal_of_either_way(make: Any) -> None:
    for answer in (error(2019, FULL), httpx.ConnectError("nobody listens")):
        scheduler, slurm = make(answer)
        said = f"sbatch: error: Batch job submission failed: {FULL}"
        slurm.sbatch = Completed(1, b"", said.encode())
        with pytest.raises(SchedulerUnavailable, match="accepts no jobs at the moment") as caught:
            await scheduler.submit(slurm.request)
        assert FULL in caught.value.message
        assert not isinstance(caught.value, SubmitUncertain)
