"""The agent's parts by themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aitne.adapters import job_files
from aitne.agent import (
    attempt_fence,
    http_client,
    main,
    master_port,
    outcome,
    program_launcher,
    reporter,
)
from aitne.agent.spec import Spec
from aitne.core.errors import Unavailable
from aitne.core.jobs import environment_command
from aitne.core.jobs.agent_protocol import (
    EXIT_DUPLICATE,
    EXIT_ENVIRONMENT,
    EXIT_NEVER_ANSWERED,
    EXIT_NO_FENCE,
    EXIT_NOT_READY,
    EXIT_OUT_OF_MEMORY,
    VERSION,
    AgentApp,
    AgentNeed,
    AgentReport,
    AgentSpec,
)
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.common_job_fields import EnvironmentOptions
from aitne.core.ports.job_files import CLOSED, Fence, JobLocation
from aitne.core.ports.runtime import RuntimeLaunch


def spec_in(folder: Path, environ: Mapping[str, str] | None = None, **changes: Any) -> Spec:
    facts = {
        "job_id": "6f9f2c1e-0000-4000-8000-000000000001",
        "attempt": 2,
        "platform_url": "http://127.0.0.1:9",
        "workdir": "~",
    }
    model = AgentSpec.model_validate(facts | changes)
    (folder / "agent.json").write_text(model.model_dump_json())
    return Spec(str(folder), environ or {})


def test_importing_the_agent_is_cheap() -> None:
    code = "import sys, aitne.agent.main; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    modules = set(found.stdout.split())
    assert "aitne.agent.main" in modules
    dear = {"typing", "dataclasses", "subprocess", "http", "urllib", "ssl", "ctypes", "asyncio"}
    # Only a job in a container, with datasets or with limits needs these.
    dear |= {
        "aitne.agent.program_launcher",
        "aitne.agent.required_files",
        "aitne.agent.cgroup_enforcement",
        "fcntl",
    }
    assert not modules & {*dear, "pydantic", "aitne.core", "logging", "inspect", "email"}


# --- the specification ---------------------------------------------------------------------------


def test_the_spec_is_what_the_platform_wrote(tmp_path: Path) -> None:
    app = AgentApp(name="lab", kind="jupyterhub", argv=("a",), readiness_path="/x", timeout_s=7)
    (tmp_path / "token").write_text("secret\n")
    spec = spec_in(
        tmp_path,
        {"SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "1", "SLURM_JOB_ID": "12"},
        commands=(("bash", "-c", "true"),),
        apps=(app,),
        env={"A": "b"},
    )
    assert (spec.task, spec.restart_count, spec.owner, spec.attempt) == (3, 1, "12", 2)
    assert spec.commands == [["bash", "-c", "true"]]
    assert (spec.apps[0].kind, spec.apps[0].timeout_s) == ("jupyterhub", 7)
    assert (spec.token, spec.env) == ("secret", {"A": "b"})


def test_a_newer_platforms_spec_is_read_leniently(tmp_path: Path) -> None:
    spec_in(tmp_path)
    facts = json.loads((tmp_path / "agent.json").read_text()) | {"new": {"x": 1}, "protocol": 9}
    (tmp_path / "agent.json").write_text(json.dumps(facts))
    assert Spec(str(tmp_path), {}).task is None
    assert Spec(str(tmp_path), {}).starts_directly


def test_agent_file_without_newer_fields_has_empty_defaults(tmp_path: Path) -> None:
    spec_in(tmp_path)
    facts = json.loads((tmp_path / "agent.json").read_text())
    for name in ("launch", "needs", "datasets", "limits", "tmp_dir"):
        del facts[name]
    (tmp_path / "agent.json").write_text(json.dumps(facts))
    spec = Spec(str(tmp_path), {})
    assert spec.starts_directly
    assert (spec.launch.prefix, spec.needs, spec.tmp_dir) == ([], [], "/tmp")


@pytest.mark.parametrize(
    "changes",
    [
        {"launch": {"prefix": ["x"]}},
        {"launch": {"env_prefix": ""}},
        {"launch": {"env": {"A": "b"}}},
        {"needs": [{"what": "it", "path": "/x", "kind": "file"}]},
        {"datasets": {"d": "/d"}},
        {"limits": {"memory_bytes": 1}},
        {"limits": {"cpus": 1}},
    ],
)
def test_all_that_is_around_a_program_is_seen(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert not spec_in(tmp_path, **changes).starts_directly


def test_launches_and_needs_are_what_the_platform_wrote(tmp_path: Path) -> None:
    need = AgentNeed(
        what="it", path="/x", kind="file", within=("/",), size_bytes=1, mtime_ns=2, sha256="ab"
    )
    around = RuntimeLaunch(
        prefix=("a", "{gpus}"),
        gpu_options={"nvidia": ("--nv",)},
        env={"A": "b"},
        env_prefix="X_",
        program="a",
        forwards_signals=True,
    )
    spec = spec_in(tmp_path, launch=around, needs=(need,))
    for mine, theirs in ((spec.launch, around), (spec.needs[0], need)):
        written = json.loads(theirs.model_dump_json())
        read = dict(vars(mine))
        if "folder" in read:
            read["kind"] = "folder" if read.pop("folder") else "file"
        assert read == written


# --- the launching program -----------------------------------------------------------------------


def test_the_vendor_is_told_by_what_its_driver_makes(tmp_path: Path) -> None:
    assert program_launcher.gpu_vendor(str(tmp_path)) is None
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kfd").touch()
    assert program_launcher.gpu_vendor(str(tmp_path)) == "amd"
    (tmp_path / "dev" / "nvidiactl").touch()
    assert program_launcher.gpu_vendor(str(tmp_path)) == "nvidia"


def test_exit_codes_mean_the_same_on_both_sides() -> None:
    assert {main.NOT_READY, program_launcher.NOT_READY, master_port.NOT_READY} == {EXIT_NOT_READY}
    assert (main.OUT_OF_MEMORY, outcome.ENVIRONMENT) == (EXIT_OUT_OF_MEMORY, EXIT_ENVIRONMENT)
    assert environment_command.NAME in environment_command.wrap_in_environment(
        EnvironmentOptions(venv="/x"), ("a",)
    )
    assert outcome._PREAMBLE == environment_command.NAME
    assert main.NEVER_ANSWERED == EXIT_NEVER_ANSWERED
    assert (main.DUPLICATE, main.FENCE_FAILED) == (EXIT_DUPLICATE, EXIT_NO_FENCE)


# --- the fence -----------------------------------------------------------------------------------


def test_the_fence_is_taken_once(tmp_path: Path) -> None:
    attempt_fence.take_fence(str(tmp_path), None, "12", 0)
    assert json.loads((tmp_path / "fence").read_text()) == {"owner": "12", "restart_count": 0}
    for owner, count in (("12", 0), ("13", 0), ("13", 5)):
        with pytest.raises(attempt_fence.DuplicateRunError):
            attempt_fence.take_fence(str(tmp_path), None, owner, count)
    attempt_fence.take_fence(str(tmp_path), None, "12", 1)
    assert json.loads((tmp_path / "fence").read_text())["restart_count"] == 1
    attempt_fence.take_fence(str(tmp_path), 4, "13", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fence", "fence-4"]


def test_agent_outcome_is_read_by_platform(tmp_path: Path) -> None:
    job_id = UUID("6f9f2c1e-0000-4000-8000-000000000001")
    place = JobLocation(job_id=job_id, attempt=2, folder=str(tmp_path / str(job_id)))
    folder = tmp_path / str(job_id) / "2"
    folder.mkdir(parents=True, mode=0o700)
    attempt_fence.take_fence(str(folder), 7, "12_7", 1)
    told: dict[str, Any] = {"reason": "start_failed", "message": "it is not there"}
    attempt_fence.write_outcome(str(folder), 7, "12_7", 1, 3, interrupted=True, **told)
    found = job_files.read_outcome(place, 7)
    assert found is not None
    assert (found.owner, found.restart_count, found.exit_code) == ("12_7", 1, 3)
    assert found.interrupted
    assert (found.reason, found.message) == (TerminationReason.START_FAILED, "it is not there")
    assert job_files.read_outcome(place, None) is None
    assert job_files.close_fence(place, 7) == Fence(owner="12_7", restart_count=1)
    assert len(list(folder.iterdir())) == 2


def test_a_run_that_has_ended_is_not_begun_again(tmp_path: Path) -> None:
    """A Slurm that forgot its end starts it once more, with its old id."""
    attempt_fence.take_fence(str(tmp_path), None, "12", 0)
    # Preempted: a program that notices may end with any code of its own (torchrun: 1).
    attempt_fence.write_outcome(str(tmp_path), None, "12", 0, 1, interrupted=True)
    attempt_fence.take_fence(str(tmp_path), None, "12", 1)
    attempt_fence.write_outcome(str(tmp_path), None, "12", 1, 3, interrupted=False)
    for count in (0, 1, 2):
        with pytest.raises(attempt_fence.RunEndedError) as ended:
            attempt_fence.take_fence(str(tmp_path), None, "12", count)
        assert ended.value.code == 3
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(tmp_path), None, "13", 0)


def test_an_attempt_that_the_platform_has_given_up_never_begins(tmp_path: Path) -> None:
    place = JobLocation(job_id=UUID(int=1), attempt=1, folder=str(tmp_path / "job"))
    assert job_files.close_fence(place, None).owner == CLOSED, "also where no folder was made yet"
    assert job_files.close_fence(place, None).owner == CLOSED
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(place.directory), None, "12", 0)
    elsewhere = JobLocation(job_id=UUID(int=1), attempt=1, folder=str(tmp_path / "gone" / "job"))
    with pytest.raises(Unavailable):
        job_files.close_fence(elsewhere, None)


def test_fence_is_taken_by_one_of_many_threads(tmp_path: Path) -> None:
    won = []
    barrier = threading.Barrier(8)

    def run(owner: str) -> None:
        barrier.wait()
        try:
            attempt_fence.take_fence(str(tmp_path), None, owner, 0)
        except attempt_fence.DuplicateRunError:
            return
        won.append(owner)

    threads = [threading.Thread(target=run, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert json.loads((tmp_path / "fence").read_text())["owner"] == won[0]


def test_the_fence_works_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    attempt_fence.take_fence(str(tmp_path), None, "12", 0)
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(tmp_path), None, "13", 0)
    place = JobLocation(job_id=UUID(int=1), attempt=1, folder=str(tmp_path / "job"))
    assert job_files.close_fence(place, None).owner == CLOSED
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(place.directory), None, "12", 0)
    attempt_fence.take_fence(str(place.directory), 3, "12_3", 0)
    assert job_files.close_fence(place, 3).owner == "12_3"
    assert sorted(path.name for path in Path(place.directory).iterdir()) == ["fence", "fence-3"]


def test_a_link_whose_answer_was_lost_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS asks again and hears that there is one."""
    link = os.link

    def twice(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        link(*args, **kwargs)

    monkeypatch.setattr(os, "link", twice)
    attempt_fence.take_fence(str(tmp_path), None, "12", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["fence"]
    with pytest.raises(attempt_fence.DuplicateRunError):
        attempt_fence.take_fence(str(tmp_path), None, "12", 0)


def test_a_fence_that_cannot_be_read_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "fence").write_text("")
    with pytest.raises(attempt_fence.DuplicateRunError, match="cannot be read"):
        attempt_fence.take_fence(str(tmp_path), None, "12", 1)
    (tmp_path / "fence").unlink()
    (tmp_path / "fence").mkdir()
    with pytest.raises(OSError, match="directory"):
        attempt_fence.take_fence(str(tmp_path), None, "12", 1)


# --- HTTP ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://host", (False, "host", 80, "/")),
        ("https://host/a?b=1", (True, "host", 443, "/a?b=1")),
        ("http://10.0.0.1:8000/x", (False, "10.0.0.1", 8000, "/x")),
        ("http://[::1]:8000/x", (False, "::1", 8000, "/x")),
        ("http://[::1]/", (False, "::1", 80, "/")),
    ],
)
def test_urls(url: str, parts: tuple[bool, str, int, str]) -> None:
    assert http_client.split_url(url) == parts


# --- reports -------------------------------------------------------------------------------------


class Platform:
    """Takes the reporter's requests in place of the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: list[AgentReport] = []
        self.answers: list[int | Exception] = []
        self.first = threading.Event()
        self.takes_s = 0.0
        monkeypatch.setattr(http_client, "request", self.request)

    def request(self, method: str, url: str, *, body: bytes, **_: Any) -> tuple[int, bytes]:
        answer = self.answers.pop(0) if self.answers else 200
        self.first.set()
        time.sleep(self.takes_s)
        if isinstance(answer, Exception):
            raise answer
        if answer == 200:
            facts = json.loads(body)
            assert set(facts) <= set(AgentReport.model_fields)
            self.reports.append(AgentReport.model_validate(facts))
        return answer, b"{}"


def sample(n: int) -> dict[str, Any]:
    return {"time": "2026-01-01T00:00:00+00:00", "node": "n", "cpu": float(n), "memory_bytes": n}


def test_reports_are_what_the_platform_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(monkeypatch)
    monkeypatch.setattr(reporter, "_LAST_WORDS_S", 30.0)  # a busy machine needs more than a second
    told = reporter.Reporter(spec_in(tmp_path, {"SLURM_ARRAY_TASK_ID": "3"}))
    told.queue_phase("started", address="127.0.0.1:1")
    for n in range(2_500):
        told.queue_sample(sample(n))
    told.start()
    told.report_finish(3, "x" * 5_000)
    told.start()
    first, *_, last = platform.reports
    assert (first.phase, first.address, first.task, first.attempt) == (
        "started",
        "127.0.0.1:1",
        3,
        2,
    )
    assert first.protocol == VERSION
    assert (last.phase, last.exit_code, last.address) == ("finished", 3, "127.0.0.1:1")
    assert last.message is not None
    assert len(last.message) == 2_000
    samples = [each.cpu for report in platform.reports for each in report.samples]
    assert samples == [float(n) for n in range(1_500, 2_500)]


def test_a_failed_report_is_said_again_and_a_refused_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_LONGEST_PAUSE_S", 0.01)
    platform = Platform(monkeypatch)
    platform.answers = [ConnectionRefusedError(), 503, http_client.InvalidResponseError(), 401, 200]
    told = reporter.Reporter(spec_in(tmp_path))
    for phase in ("started", "ready"):
        told.queue_phase(phase)
    told.start()
    deadline = threading.Event()
    while not platform.reports and not deadline.wait(0.01):
        pass
    assert [report.phase for report in platform.reports] == ["ready"]
    told.report_finish(0)
    assert [report.phase for report in platform.reports] == ["ready", "finished"]


def test_a_profile_that_the_platform_refuses_takes_no_news_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(monkeypatch)
    platform.answers = [413, 200]
    told = reporter.Reporter(spec_in(tmp_path))
    told.queue_phase("started")
    told.queue_profile({"size": 2})
    told.start()
    told.report_finish(0)
    found = [(report.phase, report.profile) for report in platform.reports]
    assert found == [("started", None), ("finished", None)]


def test_the_end_does_not_wait_for_a_platform_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(monkeypatch)
    platform.answers = [ConnectionRefusedError()] * 100
    told = reporter.Reporter(spec_in(tmp_path))
    told.queue_phase("started")
    told.start()
    assert platform.first.wait(10)
    told.report_finish(0)
    assert len(platform.answers) == 98
    assert not platform.reports


def test_results_of_job_arrive_at_slow_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "_LAST_WORDS_S", 0.0)
    platform = Platform(monkeypatch)
    platform.takes_s = 0.1
    told = reporter.Reporter(spec_in(tmp_path))
    told.queue_phase("started")
    told.start()
    told.queue_document("results", {"values": {"loss": 0.5}})
    told.report_finish(0)
    assert [report.results for report in platform.reports if report.results is not None]


def test_without_a_platform_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(monkeypatch)
    told = reporter.Reporter(spec_in(tmp_path, platform_url=None))
    told.queue_phase("started")
    told.start()
    told.report_finish(0)
    assert not platform.reports
