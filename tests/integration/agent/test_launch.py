"""Tests of the agent's preparation of programs: requirements, environment, folders, limits."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aitne.agent import cgroup_enforcement, required_files
from aitne.agent.spec import Need
from aitne.core.jobs.agent_protocol import EXIT_NOT_READY, EXIT_OUT_OF_MEMORY, ProgramPhase
from aitne.core.jobs.states import TerminationReason
from aitne.core.ports.job_files import ProgramOutcome
from tests.support import realtime
from tests.support.agents import Job, Platform
from tests.support.mounts import hanging, mounted
from tests.support.slurm import root_or_skip

pytestmark = realtime.PROCESSES

ENV = {"prefix": ["env"], "program": "env", "env_prefix": "BOX_"}
"""The smallest launching program: it is given an environment and becomes the program."""


def outcome(job: Job) -> ProgramOutcome:
    return ProgramOutcome.model_validate_json((job.folder / "outcome").read_bytes())


def need(path: Path, **facts: Any) -> dict[str, Any]:
    found = {"what": "the image box:1.0", "path": str(path), "kind": "file"}
    if path.is_file():
        status = path.stat()
        found |= {"size_bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
        found |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    return found | facts


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "images" / "box.sif"
    path.parent.mkdir()
    path.write_bytes(b"an image")
    return path


NOBODY = 65_534


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """Set the effective uid of all threads during the block."""
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def world_readable(folder: Path) -> Iterator[None]:
    """Let others pass through pytest's own folders."""
    opened = {each: each.stat().st_mode for each in (folder, *folder.parents[:2])}
    for each, mode in opened.items():
        each.chmod(mode | 0o055)
    try:
        yield
    finally:
        for each, mode in opened.items():
            each.chmod(mode)


# --- what a program needs ------------------------------------------------------------------------


def refused(job: Job, platform: Platform, needed: dict[str, Any]) -> str:
    """Return the error of a refused job, which log, report and outcome share."""
    assert job.run("echo never", url=platform.url, needs=[needed]) == EXIT_NOT_READY
    left = outcome(job)
    assert (left.reason, left.exit_code) == (TerminationReason.START_FAILED, EXIT_NOT_READY)
    assert job.log == f"aitne: {left.message}.\n"
    finished = platform.report(ProgramPhase.FINISHED)
    assert (finished.message, finished.exit_code) == (left.message, EXIT_NOT_READY)
    assert left.message is not None
    return left.message


def test_job_starts_when_needed_files_exist(job: Job, image: Path) -> None:
    folder = need(image.parent, what="the dataset d:1", kind="folder", within=[str(job.folder)])
    assert job.run("echo yes", needs=[need(image), folder]) == 0
    assert job.log == "yes\n"


def test_a_file_that_was_only_copied_is_the_same(job: Job, image: Path) -> None:
    recorded = need(image)
    os.utime(image, ns=(1, 1))
    assert job.run("echo yes", needs=[recorded]) == 0


def test_a_long_look_at_an_image_is_no_silence(job: Job, platform: Platform, image: Path) -> None:
    known = need(image)
    os.utime(image)
    assert job.run("echo one", sample_interval_s=60, url=platform.url, needs=[need(image)]) == 0
    assert platform.until(bool)[0].phase is ProgramPhase.STARTED
    platform.reports.clear()
    (job.folder / "fence").unlink()
    assert job.run("echo one", sample_interval_s=60, url=platform.url, needs=[known]) == 0
    first = platform.until(bool)[0]
    assert (first.phase, first.node) == (ProgramPhase.RUNNING, "node01"), "it looks, and lives"


def test_a_changed_image_is_refused(job: Job, platform: Platform, image: Path) -> None:
    recorded = need(image)
    image.write_bytes(b"another!")
    message = refused(job, platform, recorded)
    assert "the image box:1.0 is not what was registered" in message
    assert str(image) in message
    assert recorded["sha256"][:16] in message


def test_a_missing_file_is_named_with_what_is_there(
    job: Job, platform: Platform, image: Path
) -> None:
    message = refused(job, platform, need(image.parent / "no" / "such.sif"))
    assert "the image box:1.0 is missing on node node01" in message
    assert f"only {image.parent} does" in message


def test_an_unreadable_dataset_is_refused(tmp_path: Path) -> None:
    """Root may read all files, so the check runs under another uid."""
    root_or_skip()
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    with world_readable(tmp_path):
        needed = Need({"what": "the dataset d:1", "path": str(folder), "kind": "folder"})
        with pytest.raises(required_files.MissingRequirementError) as refused, acting_as(NOBODY):
            required_files.check_needs([needed], "n1", lambda: False)
    assert f"{folder} is not readable by user id {NOBODY}" in str(refused.value)


def test_a_file_is_no_dataset(job: Job, platform: Platform) -> None:
    file = job.folder / "div2k"
    file.write_text("")
    message = refused(job, platform, need(file, what="the dataset div2k:1", kind="folder"))
    assert message == f"the dataset div2k:1 is not a folder on node node01: {file}"


def test_a_link_out_of_the_allowed_folders_is_refused(
    job: Job, platform: Platform, image: Path
) -> None:
    link = image.parent / "link.sif"
    link.symlink_to("/etc/passwd")
    message = refused(job, platform, need(link, within=[str(image.parent)]))
    assert f"leads to /etc/passwd, which lies in none of {image.parent}" in message


def test_a_file_system_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(required_files, "LOOK_S", 0.5)
    with hanging(tmp_path / "mount") as place:
        needed = Need({"what": "the dataset d:1", "path": str(place / "d"), "kind": "folder"})
        with pytest.raises(required_files.MissingRequirementError, match="did not answer for"):
            required_files.check_needs([needed], "n1", lambda: False)


def test_a_look_at_a_large_file_ends_when_the_job_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * (3 << 20))
    asked = iter([False, True])
    needed = Need(need(file, size_bytes=1))
    with pytest.raises(required_files.StopRequested):
        required_files.check_needs([needed], "n1", lambda: next(asked))


# --- the launching program -----------------------------------------------------------------------


def test_a_missing_launching_program_is_named(job: Job) -> None:
    launch = {"prefix": ["apptainer-of-nobody"], "program": "apptainer-of-nobody"}
    assert job.run("echo never", launch=launch | {"env_prefix": "X_"}) == 127
    left = outcome(job)
    assert left.reason is TerminationReason.START_FAILED
    assert left.message is not None
    assert left.message.startswith("Apptainer-of-nobody is not installed on node node01: ")


def test_a_missing_working_directory_is_no_other_one_in_a_container(job: Job) -> None:
    missing = str(job.folder / "missing")
    assert job.run("pwd", launch=ENV, workdir=missing) == EXIT_NOT_READY
    assert f"directory {missing} cannot be entered" in (outcome(job).message or "")


@pytest.mark.parametrize(
    ("says", "code", "reason", "message"),
    [
        ("BOX: no such file.", 255, TerminationReason.START_FAILED, "no such file"),
        ("BOX lost: it", 255, TerminationReason.FAILED, "it"),
        ("BOX: no such file.", 3, None, None),
        ("another", 255, None, None),
    ],
)
def test_known_messages_of_launching_program_determine_termination_reason(
    job: Job, says: str, code: int, reason: TerminationReason | None, message: str | None
) -> None:
    known = [("BOX lost", "failed"), ("BOX:", "start_failed")]
    endings = [{"exit_code": 255, "words": words, "reason": why} for words, why in known]
    launch = ENV | {"own_endings": endings}
    assert job.run(f"echo {says} >&2; exit {code}", launch=launch) == code
    assert (outcome(job).reason, outcome(job).message) == (reason, message)
    assert job.log == f"{says}\n"


def test_container_environment_contains_allowed_variables_of_node_only(job: Job) -> None:
    fabric = {
        "NCCL_SOCKET_IFNAME": "ib0",
        "UCX_NET_DEVICES": "mlx5_0:1",
        "FI_PROVIDER": "verbs",
        "MV2_USE_CUDA": "1",
        "GLOO_SOCKET_IFNAME": "ib0",
    }
    around = {
        "SECRET": "1",
        "LD_PRELOAD": "",
        "SLURM_JWT": "2",
        "AITNE_DATABASE": "3",
        "SLURM_JOB_ID": "12",
        "AITNE_JOB_ID": "j",
        "CUDA_VISIBLE_DEVICES": "0,3",
        "MASTER_ADDR": "n1",
        "OMP_NUM_THREADS": "4",
        "LC_ALL": "C.UTF-8",
        **fabric,
    }
    job.run(
        commands=[("/usr/bin/env", "-0")],
        launch=ENV | {"env": {"CACHE": "{tmp}/c"}},
        variables={"MINE": "$HOME `id`\nline", "PATH": "/mine"},
        around=around,
        tmp_dir=str(job.folder),
    )
    found = dict(line.split("=", 1) for line in job.log.split("\0") if line)
    boxed = {name[4:]: value for name, value in found.items() if name.startswith("BOX_")}
    own = {name: value for name, value in found.items() if not name.startswith("BOX_")}
    assert own.pop("CACHE").startswith(f"{job.folder}/aitne-")
    assert set(own) == {"PATH", "LANG", "HOME"}
    assert own["PATH"].startswith("/usr/local/sbin:")
    assert (boxed["MINE"], boxed["PATH"]) == ("$HOME `id`\nline", "/mine")
    kept = {"SLURM_JOB_ID", "AITNE_JOB_ID", "CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "LC_ALL"}
    assert kept | {"OMP_NUM_THREADS", "SLURMD_NODENAME"} <= set(boxed)
    assert fabric.items() <= boxed.items()
    assert not {"SECRET", "LD_PRELOAD", "SLURM_JWT", "AITNE_DATABASE"} & set(boxed)


def test_gpu_options_are_those_of_the_node(job: Job) -> None:
    """This node has none, or NVIDIA's."""
    present = any(map(os.path.exists, ("/dev/nvidiactl", "/proc/driver/nvidia")))
    launch = {"prefix": ["echo", "{gpus}", "-"], "gpu_options": {"nvidia": ["--nv"]}}
    assert job.run(commands=[("program",)], launch=launch) == 0
    assert job.log == ("--nv - program\n" if present else "- program\n")


# --- the temporary folder and datasets -----------------------------------------------------------

TMP = {"prefix": ["env", "BOX={tmp}"], "program": "env"}


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("aitne-*"))


def test_the_temporary_folder_is_the_jobs_own_and_goes_with_it(job: Job) -> None:
    program = 'stat -c "%a %n" $BOX $BOX/*; mkdir -p $BOX/tmp/a/b; touch $BOX/tmp/a/f'
    program += "; chmod 0 $BOX/tmp/a/b; ln -s /etc $BOX/var_tmp/link"
    assert job.run(program, launch=TMP, tmp_dir=str(job.folder)) == 0
    lines = [line.split() for line in job.log.splitlines()]
    assert [mode for mode, _ in lines] == ["700"] * 3
    assert [path.rpartition("/")[2] for _, path in lines[1:]] == ["tmp", "var_tmp"]
    assert left_in(job.folder) == []
    assert Path("/etc/passwd").exists()


def test_temporary_folder_is_removed_after_signal(job: Job) -> None:
    process = job.start("echo up; exec sleep 60", launch=TMP, tmp_dir=str(job.folder))
    job.log_says("up")
    assert len(left_in(job.folder)) == 1
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert left_in(job.folder) == []


def test_temporary_folder_of_killed_agent_is_removed_by_later_agent(job: Job) -> None:
    old = job.folder / f"aitne-{os.geteuid()}-{'0' * 16}"
    old.mkdir(mode=0o700)
    (old / ".lock").touch()
    (old / "tmp").mkdir()
    os.utime(old, (1, 1))
    assert job.run("true", launch=TMP, tmp_dir=str(job.folder)) == 0
    assert left_in(job.folder) == []


def test_a_full_disk_is_named(job: Job, tmp_path: Path) -> None:
    with mounted(tmp_path / "full", "size=64k") as place:
        (place / "filler").write_bytes(b"x" * (40 << 10))
        assert job.run("echo never", launch=TMP, tmp_dir=str(place)) == EXIT_NOT_READY
        assert [path.name for path in place.iterdir()] == ["filler"]
    message = outcome(job).message
    assert message is not None
    assert (
        f"cannot be created below {tmp_path}/full on node node01: No space left on device"
        in message
    )


def test_datasets_are_links_without_a_container(job: Job, image: Path) -> None:
    code = job.run(
        "cat $AITNE_DATASETS/pictures/box.sif; echo; ls $AITNE_DATASETS",
        datasets={"pictures": str(image.parent)},
        tmp_dir=str(job.folder),
    )
    assert (code, job.log) == (0, "an image\npictures\n")
    assert left_in(job.folder) == []
    assert image.exists()


# --- limits --------------------------------------------------------------------------------------

GREEDY = "python3 -c 'x = bytearray(200 << 20); print(len(x))'"


@pytest.fixture
def groups() -> Iterator[None]:
    """Skip the test where this account can create no cgroup; check that none is left afterwards."""
    if "memory" not in cgroup_enforcement.probe_controllers():
        pytest.skip("this machine lets this account make no control group with a memory limit")
    before = group_folders()
    yield
    assert group_folders() <= before


def group_folders() -> set[str]:
    return {
        place
        for place, _, _ in os.walk("/sys/fs/cgroup")
        if os.path.basename(place).startswith("aitne-agent-") and owned(place)
    }


def owned(place: str) -> bool:
    """Return whether the cgroup belongs to this test; other tests run jobs at the same time."""
    pid = os.path.basename(place).split("-")[2]
    try:
        return b"aitne.agent" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


@pytest.mark.usefixtures("groups")
def test_a_program_that_takes_too_much_is_ended_and_the_job_says_so(
    job: Job, platform: Platform
) -> None:
    # The other half would wait for ever for the half that was ended.
    program = f"sleep 600 & {GREEDY}; wait"
    limits = {"memory_bytes": 50 << 20}
    assert job.run(program, url=platform.url, limits=limits) == EXIT_OUT_OF_MEMORY
    left = outcome(job)
    assert left.reason is TerminationReason.OUT_OF_MEMORY
    assert left.message is not None
    assert "the job used more than its 50 MiB" in left.message
    assert platform.report(ProgramPhase.FINISHED).message == left.message


@pytest.mark.usefixtures("groups")
def test_a_program_within_its_limit_is_left_alone(job: Job) -> None:
    limits = {"memory_bytes": 400 << 20, "cpus": 1}
    assert job.run(f"{GREEDY}; exit 3", limits=limits) == 3
    assert job.log == f"{200 << 20}\n"
    assert outcome(job).reason is None


@pytest.mark.usefixtures("groups")
def test_a_program_within_limits_that_is_not_there(job: Job) -> None:
    assert job.run(commands=[("no-such-program",)], limits={"memory_bytes": 400 << 20}) == 127
    assert job.log == "aitne: no-such-program cannot be started: No such file or directory.\n"


@pytest.mark.usefixtures("groups")
def test_the_group_goes_after_a_signal_and_leaves_what_the_program_left(job: Job) -> None:
    """Processes in the background are ended by the scheduler, as without limits."""
    process = job.start(
        "sleep 60 & echo $! > left; echo up; wait", limits={"memory_bytes": 400 << 20}
    )
    job.log_says("up")
    pid = int((job.folder / "left").read_text())
    assert "aitne-agent-" in Path(f"/proc/{pid}/cgroup").read_text()
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.usefixtures("groups")
def test_cpus_are_held(job: Job) -> None:
    shown = 'cat $(awk -F: \'$2 == "cpu" {print "/sys/fs/cgroup/cpu" $3}\' /proc/self/cgroup)'
    if (
        "cpu" not in cgroup_enforcement.probe_controllers()
        or not Path("/sys/fs/cgroup/cpu").exists()
    ):
        pytest.skip("no version 1 CPU controller here")
    assert job.run(f"{shown}/cpu.cfs_quota_us", limits={"cpus": 2}) == 0
    assert job.log == "200000\n"
