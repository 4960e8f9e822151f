"""sbatch's arguments of a job, and what a user may add to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.core.errors import SchedulerRejected
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import GpuRequest, Resources
from tests.support.jobs import make_request


def test_a_job_as_options() -> None:
    asked = make_request(
        attempt=3,
        time_limit_s=90_061,
        resources=Resources(
            nodes=2,
            cpu=3,
            memory_bytes=(1 << 30) + 1,
            gpu=GpuRequest(count=1, type="1g.10gb"),
            gres={"shard": 2},
        ),
        array="0-3%2",
        after=("4", "5_1"),
        max_requeues=1,
        slurm=SlurmOptions(qos="high", signal="USR1@120", extra=("--mail-type",)),
        job_dir="/home/100%/j/1",
    )
    words = list(make_sbatch_arguments(asked, accounting=True, allowed=["--mail-type"]))
    assert words[:2] == ["--mail-type", "--parsable"]  # nothing of ours can become its value
    assert {
        f"--job-name=aitne-{asked.job_id}-3",
        f"--comment=aitne:{asked.job_id}:3",
        "--output=/home/100%%/j/1/output-%a.log",
        "--chdir=/home/100%/j/1",
        "--mem=1025M",
        "--time=1-01:01:01",
        "--gres=gpu:1g.10gb:1,shard:2",
        "--account=ml",
        "--qos=high",
        "--array=0-3%2",
        "--dependency=afterok:4:5_1",
        "--kill-on-invalid-dep=yes",
        "--signal=B:USR1@120",
        "--requeue",
    } <= set(words)
    assert not [word for word in words if word.startswith(("--partition", "--exclusive"))]


@pytest.mark.parametrize(
    ("signal", "option"), [("B:10@60", "B:10@60"), ("steps:USR1@60", "USR1@60")]
)
def test_signal_reaches_the_agent_or_the_steps(signal: str, option: str) -> None:
    request = make_request(slurm=SlurmOptions(signal=signal))
    assert f"--signal={option}" in set(make_sbatch_arguments(request, accounting=False))


def test_session_on_several_nodes_outlives_all_but_the_first() -> None:
    two = Resources(nodes=2)
    session = make_request(session=True, resources=two)
    assert "--no-kill" in set(make_sbatch_arguments(session, accounting=False))
    for other in (make_request(session=True), make_request(resources=two)):
        assert "--no-kill" not in set(make_sbatch_arguments(other, accounting=False))


def test_sessions_are_never_requeued_and_projects_are_accounts_where_there_are_any() -> None:
    asked = make_request(
        session=True, max_requeues=5, slurm=SlurmOptions(requeue=True, account="other")
    )
    words = set(make_sbatch_arguments(asked, accounting=False))
    assert "--no-requeue" in words
    assert not [word for word in words if word.startswith("--account")]
    assert "--account=other" in set(make_sbatch_arguments(asked, accounting=True))


@pytest.mark.parametrize(
    "option", ["--uid=0", "--wrap=id", "--export=ALL", "--comment=x", "--switches=1"]
)
def test_extra_options_must_be_open(option: str) -> None:
    allowed = ["--uid", "--wrap", "--export", "--comment", "--wckey"]
    with pytest.raises(SchedulerRejected) as caught:
        list(
            make_sbatch_arguments(
                make_request(slurm=SlurmOptions(extra=(option,))), accounting=True, allowed=allowed
            )
        )
    assert caught.value.field == "slurm.extra"
    assert "permitted are --wckey" in str(caught.value)


@given(st.text(max_size=300))
def test_a_jobs_name_never_gets_there(name: str) -> None:
    asked = make_request(name=f"<{name}>")
    words = make_sbatch_arguments(asked, accounting=True)
    assert not [word for word in words if f"<{name}>" in word]
