"""``aitne admin setup`` inspects a Slurm that runs: what it finds, and that a job there is not disturbed."""

from __future__ import annotations

from pathlib import Path

from aitne.core.models.check_result import CheckResult
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.operations.setup.answers import Answers, validate_answers
from aitne.operations.setup.slurm_inspection import SlurmSite
from tests.support import realtime
from tests.support.slurm import run_as, sbatch
from tests.support.waiting import eventually

pytestmark = realtime.SLURM


def answers(cluster: DevCluster, **slurm: object) -> Answers:
    return validate_answers(
        {
            "scheduler": "slurm",
            "public_url": "http://127.0.0.1:8000",
            "sessions_url": "http://127.0.0.1:8001",
            "slurm": {
                "conf": str(cluster.slurm_conf),
                "rest_url": cluster.rest_url,
                "jwt_key": str(cluster.jwt_key),
                "operator": cluster.operator,
                "software_dir": str(cluster.software_dir),
                "test_user": "alice",
                **slurm,
            },
        }
    )


def checks(given: Answers) -> dict[str, CheckResult]:
    return {check.name: check for check in SlurmSite(given).run_checks()}


def test_inspection_of_a_running_slurm_leaves_its_jobs_undisturbed(
    slurm_cluster: DevCluster,
) -> None:
    job = sbatch(slurm_cluster, "bob", "#!/bin/sh\nsleep 300\n", "--mem=32M")

    def record() -> str:
        return run_as(slurm_cluster, "bob", "scontrol", "show", "job", job)

    try:
        eventually("the job runs", lambda: "JobState=RUNNING" in record())
        inspected = checks(answers(slurm_cluster))

        assert "JobState=RUNNING" in record()
        assert "Restarts=0" in record()
    finally:
        run_as(slurm_cluster, "bob", "scancel", job)
    names = ("slurm", "slurm.operator", "slurm.rest", "slurm.jwt", "slurm.users", "shared.nodes")
    assert [inspected[name] for name in names if inspected[name].state != "ok"] == []
    assert slurm_cluster.slurm_release in inspected["slurm"].message
    accounts = answers(slurm_cluster).accounts.model_copy(update={"max_uid": 1_000})
    narrow = answers(slurm_cluster).model_copy(update={"accounts": accounts})
    assert "bob (" in checks(narrow)["slurm.users"].message
    missing = inspected["slurm.PrologFlags"]
    assert missing.state == "warning"
    assert "Set PrologFlags=Contain in slurm.conf" in (missing.remedy or "")


def test_account_that_is_no_operator_and_a_folder_that_nodes_do_not_have_are_named(
    slurm_cluster: DevCluster, tmp_path: Path
) -> None:
    given = answers(slurm_cluster, operator="alice", test_user="nobody-here")

    inspected = checks(given)

    assert inspected["slurm.operator"].state in ("failed", "warning")
    assert "adminlevel=operator" in (inspected["slurm.operator"].remedy or "")
    assert inspected["shared.nodes"].message == "There is no account nobody-here here."
    absent = checks(answers(slurm_cluster, software_dir=str(tmp_path / "absent")))["shared.nodes"]
    assert (absent.state, "does not exist yet" in absent.message) == ("unknown", True)
    silent = checks(answers(slurm_cluster, rest_url="http://127.0.0.1:9", jwt_key=None))
    assert silent["slurm.rest"].state == "warning"


def test_slurm_that_does_not_answer_is_named_with_a_remedy(tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "ClusterName=away\nSlurmctldHost=localhost\nSlurmctldPort=9\nMessageTimeout=2\n"
    )
    given = validate_answers(
        {
            "scheduler": "slurm",
            "public_url": "http://127.0.0.1:8000",
            "sessions_url": "http://127.0.0.1:8001",
            "slurm": {"conf": str(conf)},
        }
    )

    (check,) = SlurmSite(given).run_checks()

    assert check.state == "failed"
    assert "Slurm does not answer" in check.message
    assert "start slurmctld" in (check.remedy or "")
