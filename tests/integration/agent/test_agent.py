"""The agent as a process, against a small real HTTP server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from aitne.agent import main as agent
from aitne.core.jobs.agent_protocol import (
    EXIT_LOG_FULL,
    AgentApp,
    AgentReport,
    Handover,
    ProgramPhase,
)
from aitne.core.jobs.job_folder_layout import UNNEEDED
from aitne.core.jobs.log_path_pattern import to_format_string
from tests.support import realtime
from tests.support.agents import Job, Platform
from tests.support.mounts import mounted
from tests.support.rapl import tree

pytestmark = realtime.PROCESSES

# --- batch jobs ----------------------------------------------------------------------------------


def test_commands_run_in_order_until_one_fails(job: Job, platform: Platform) -> None:
    code = job.run(
        "echo $GREETING from $PWD; echo err >&2",
        "exit 7",
        "echo never",
        url=platform.url,
        variables={"GREETING": "'hi' $(x)"},
        around={"SLURM_ARRAY_TASK_ID": "3", "SLURM_RESTART_COUNT": "1"},
    )
    assert code == 7
    assert job.log == f"'hi' $(x) from {job.folder}\nerr\n"
    first, *_, last = platform.until(lambda found: found[-1:] and found[-1].phase == "finished")
    assert (first.phase, first.node, first.address) == (ProgramPhase.STARTED, "node01", None)
    assert (first.task, first.restart_count) == (3, 1)
    assert (last.phase, last.exit_code) == (ProgramPhase.FINISHED, 7)
    assert platform.tokens == {"Bearer the-token"}
    assert (job.folder / "fence-3").exists()


def test_commands_have_a_port_that_is_held_until_they_listen(job: Job) -> None:
    bind = "import os, socket; socket.socket().bind(('', int(os.environ['MASTER_PORT'])))"
    serve = "import os, socket; socket.create_server(('', int(os.environ['MASTER_PORT'])))"
    python = sys.executable
    assert job.run(f'{python} -c "{bind}" 2>/dev/null || echo held; {python} -c "{serve}"') == 0
    assert job.log == "held\n"


def test_port_that_the_job_file_sets_is_left_alone(job: Job) -> None:
    assert job.run("echo $MASTER_PORT", variables={"MASTER_PORT": "29500"}) == 0
    assert job.log == "29500\n"


def test_samples_arrive_while_it_runs(job: Job, platform: Platform) -> None:
    job.start("while :; do :; done", url=platform.url)

    def measured(found: list[AgentReport]) -> bool:
        shares = [sample.cpu for report in found for sample in report.samples]
        return len(shares) >= 6 and max(shares) > 0.1

    reports = platform.until(measured)
    samples = [sample for report in reports for sample in report.samples]
    assert {report.phase for report in reports} == {ProgramPhase.STARTED, ProgramPhase.RUNNING}
    assert {sample.processes for sample in samples} == {1}
    assert all(1 << 16 < sample.memory_bytes < 50 << 20 for sample in samples)
    assert [sample.time for sample in samples] == sorted(sample.time for sample in samples)


@pytest.mark.parametrize("whole", [True, False])
def test_energy_is_measured_where_the_counters_can_be_read(
    job: Job, platform: Platform, tmp_path: Path, whole: bool
) -> None:
    counters = tree(tmp_path / "powercap", start_uj=262_143_000_000)
    show = f'mount -t tmpfs none /sys/class && cp -r {counters} /sys/class && exec "$@"'
    use = "echo 671150 >/sys/class/powercap/intel-rapl:0/energy_uj"
    cpus = (os.cpu_count() or 1) + (not whole)
    job.start(
        f"until [ -e use ]; do sleep 0.05; done; {use}; sleep 60",
        url=platform.url,
        around={"SLURM_JOB_CPUS_PER_NODE": f"{cpus}(x2)"},
        within=("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", show, "sh"),
    )
    platform.until(lambda found: any(report.samples for report in found))
    (job.folder / "use").touch()
    reports = platform.until(
        lambda found: any(s.node_cpu_power_w for report in found for s in report.samples)
    )
    samples = [sample for report in reports for sample in report.samples]
    last = next(sample for sample in samples if sample.node_cpu_power_w)
    # The counter has begun anew: 262,143,328,850 - 262,143,000,000 + 671,150 µJ.
    assert last.cpu_energy_j == (1.0 if whole else None)


@pytest.mark.parametrize("away", ["refuses", "hangs", "babbles"])
def test_a_platform_that_is_away_changes_nothing(job: Job, away: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if away != "refuses":
            listener.listen()
        if away == "babbles":
            threading.Thread(target=_babble, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert job.run("echo one", "echo two; exit 3", url=url) == 3
    assert job.log == "one\ntwo\n"


def _babble(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("trap 'echo asked; exit 5' TERM; echo up; while :; do sleep .02; done", 5),
        ("echo up; exec sleep 60", 128 + signal.SIGTERM),
        ("trap 'exit 0' TERM; echo up; while :; do sleep .02; done", 128 + signal.SIGTERM),
    ],
)
def test_sigterm_reaches_the_program(job: Job, program: str, code: int) -> None:
    process = job.start(program, "echo never")
    job.log_says("up")
    process.terminate()
    assert process.wait(20) == code
    assert "never" not in job.log


@pytest.mark.parametrize("name", [None, "USR1", "SIGUSR1", str(int(signal.SIGUSR1))])
def test_signal_for_the_script_spares_its_child_processes(job: Job, name: str | None) -> None:
    child = "trap 'echo child asked' USR1; trap exit TERM; echo up; while :; do sleep .02; done"
    script = f"""trap 'asked=1' USR1; bash -c "{child}" & pid=$!
        until [[ $asked ]]; do sleep .02; done; echo script asked; kill $pid; wait $pid; exit 7"""
    process = job.start(script, script_signal=name)
    job.log_says("up")
    process.send_signal(signal.SIGUSR1)
    assert process.wait(20) == 7
    assert "script asked" in job.log
    assert ("child asked" in job.log) is (name is None)


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGQUIT])
def test_signal_that_slurm_may_send_early_reaches_the_program(job: Job, number: int) -> None:
    process = job.start(f"trap 'exit 6' {int(number)}; echo up; while :; do sleep .02; done")
    job.log_says("up")
    process.send_signal(number)
    assert process.wait(20) == 6


def test_a_signal_of_the_program_is_told_as_a_shell_does(job: Job) -> None:
    assert job.run("kill -KILL $$") == 137


def test_the_last_command_may_leave_orphans(job: Job, platform: Platform) -> None:
    """They become the agent's children meanwhile, and are collected."""
    code = job.run("(sleep .3 &) ; sleep .6; exit 4", url=platform.url)
    assert code == 4


def test_a_second_run_of_the_attempt_starts_nothing(job: Job) -> None:
    assert job.run("echo one; exit 3") == 3
    assert not (job.folder / "token").exists()
    assert job.run("echo two", around={"SLURM_JOB_ID": "13"}) == agent.DUPLICATE
    assert "taken by scheduler job 12; this is 13" in job.log
    assert "Nothing was started" in job.log
    for count in ("0", "1"):
        # A scheduler that forgot its end starts it again under its old id: the end stands.
        assert job.run("echo two", around={"SLURM_RESTART_COUNT": count}) == 3
    assert job.log.splitlines().count("one") == 1
    assert "two" not in job.log.splitlines()


def test_a_run_that_was_asked_to_end_goes_on_when_it_is_started_again(job: Job) -> None:
    """A preempted program may end with any code of its own."""
    process = job.start("trap 'exit 5' TERM; echo up; while :; do sleep .02; done")
    job.log_says("up")
    process.terminate()
    assert process.wait(20) == 5
    assert (job.folder / "token").exists()
    assert job.run("echo again", around={"SLURM_RESTART_COUNT": "1"}) == 0
    assert "again" in job.log.splitlines()


def test_a_fence_that_cannot_be_taken(job: Job) -> None:
    (job.folder / "fence").mkdir()
    assert job.run("echo one") == agent.FENCE_FAILED
    assert "the fence could not be taken" in job.log


def test_a_missing_working_directory_is_named(job: Job, platform: Platform) -> None:
    assert job.run("echo one", workdir="~/missing", url=platform.url) == agent.NOT_READY
    home = os.path.expanduser("~")
    told = f"the working directory {home}/missing cannot be entered: No such file or directory"
    assert job.log == f"aitne: {told}.\n"
    assert platform.report(ProgramPhase.FINISHED).message == told


@pytest.mark.parametrize(("argv", "code"), [(("no-such",), 127), (("/etc/passwd",), 126)])
def test_a_program_that_cannot_be_started(job: Job, argv: tuple[str, ...], code: int) -> None:
    assert job.run(commands=[argv]) == code
    assert f"{argv[0]} cannot be started" in job.log


def test_the_programs_path_is_the_jobs(job: Job) -> None:
    program = job.folder / "bin" / "greet"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    assert job.run(commands=[("greet",)], variables={"PATH": path}) == 0
    assert job.log == "hello\n"


def test_a_broken_specification_is_named(job: Job) -> None:
    process = job.start("true")
    process.wait(20)
    (job.folder / "agent.json").write_text("{")
    code = subprocess.call(
        [sys.executable, "-I", "-m", "aitne.agent", str(job.folder)], stderr=subprocess.DEVNULL
    )
    assert code == agent.FAILED


# --- sessions ------------------------------------------------------------------------------------

SERVER = """
import http.server, json, os, socketserver, sys, threading, urllib.parse
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if self.path.endswith("/slow") else 403)
        self.end_headers()
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        threading.Thread(target=server.shutdown).start()
    def log_message(self, *args):
        pass
http.server.HTTPServer.allow_reuse_address = True
"""
LAUNCHER = (
    SERVER
    + """
print("early", flush=True)
told = json.loads(sys.stdin.readline())
os.environ.update(told["env"])
print("args", told["args"], os.environ["SECRET"], flush=True)
url = urllib.parse.urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
server = http.server.HTTPServer((url.hostname, url.port), Handler)
server.serve_forever()
sys.exit(int(os.environ["CODE"]))
"""
)
PLAIN = (
    SERVER
    + """
address = os.environ["AITNE_APP_HOST"], int(os.environ["AITNE_APP_PORT"])
server = http.server.HTTPServer(address, Handler)
server.serve_forever()
"""
)


def app(code: str, kind: str = "jupyterhub", path: str = "/api", timeout_s: int = 20) -> AgentApp:
    return AgentApp(
        name="lab",
        kind=kind,
        argv=(sys.executable, "-I", "-c", code),
        readiness_path=path,
        timeout_s=timeout_s,
    )


def handover(**env: str) -> bytes:
    env = {"SECRET": "s3", "CODE": "0", "JUPYTERHUB_SERVICE_PREFIX": "/user/ada/s-1/"} | env
    return Handover(env=env, args=("--a=b",)).model_dump_json().encode()


def shut_down(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("POST", "/")
    connection.getresponse().read()
    connection.close()


@pytest.mark.parametrize("code", [0, 9])
def test_a_session_from_start_to_shut_down(job: Job, platform: Platform, code: int) -> None:
    process = job.start(url=platform.url, apps=(app(LAUNCHER),))
    started = platform.report(ProgramPhase.STARTED)
    assert started.address is not None
    assert started.address.startswith("127.0.0.1:")
    job.log_says("early")
    platform.hand_over(
        (204, b""), (503, b"no"), (200, b"nonsense"), (200, handover(CODE=str(code)))
    )
    ready = platform.report(ProgramPhase.READY)
    assert ready.address == started.address
    assert "args ['--a=b'] s3" in job.log
    command_line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b"s3" not in command_line
    shut_down(started.address)
    assert process.wait(20) == code
    assert platform.report(ProgramPhase.FINISHED).exit_code == code


def test_the_hub_decides_where_the_server_listens(job: Job, platform: Platform) -> None:
    process = job.start(url=platform.url, apps=(app(LAUNCHER),))
    address = platform.report(ProgramPhase.STARTED).address
    assert address is not None
    url = f"http://{address}/user/ada/s-1/"
    platform.hand_over((200, handover(JUPYTERHUB_SERVICE_URL=url)))
    platform.report(ProgramPhase.READY)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM


def test_a_session_that_is_stopped_while_it_waits(job: Job, platform: Platform) -> None:
    process = job.start(url=platform.url, apps=(app(LAUNCHER),))
    platform.report(ProgramPhase.STARTED)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert not any(report.phase is ProgramPhase.READY for report in platform.reports)


def test_an_app_that_never_answers_is_ended(job: Job, platform: Platform) -> None:
    process = job.start(url=platform.url, apps=(app(LAUNCHER, path="/slow", timeout_s=1),))
    platform.hand_over((200, handover()))
    assert process.wait(20) == agent.NEVER_ANSWERED
    finished = platform.report(ProgramPhase.FINISHED)
    assert finished.message is not None
    assert "/user/ada/s-1/slow within 1 s" in finished.message
    assert finished.message in job.log


def test_an_app_that_needs_no_hub(job: Job, platform: Platform) -> None:
    process = job.start("echo first", url=platform.url, apps=(app(PLAIN, kind="http"),))
    address = platform.report(ProgramPhase.READY).address
    assert address is not None
    shut_down(address)
    assert process.wait(20) == 0
    assert job.log == "first\n"


def test_an_app_that_cannot_be_started(job: Job, platform: Platform) -> None:
    broken = app("").model_copy(update={"argv": ("/no/such/python", "x")})
    assert job.run(url=platform.url, apps=(broken,)) == 127
    assert "/no/such/python cannot be started" in job.log


def test_log_appears_at_the_paths_of_the_job_file(job: Job, tmp_path: Path) -> None:
    pattern = to_format_string("%x-{0}-%4j-%A-%a-%b-%N-%s-%t-%r-%%.txt", {"x": "%j{u}"})
    stale, taken, folder = tmp_path / "stale", tmp_path / "taken", tmp_path / "folder"
    stale.write_text("of an earlier run")
    folder.mkdir()
    os.mkfifo(taken)
    paths = (pattern, str(stale), str(folder), str(taken), "missing/x", str(tmp_path / "stale"))

    assert job.run("echo said", log_files=paths) == 0

    host = os.uname().nodename.partition(".")[
        0
    ]  # as with sbatch, also if the node has another name
    named = tmp_path / f"%j{{u}}-{{0}}-0012-12-4294967294-4-{host}-batch-0-0-%.txt"
    assert named.read_text() == stale.read_text() == job.log
    assert "said" in job.log
    for path in (folder, taken, tmp_path / "missing/x"):
        assert f"the log does not appear at {path}:" in job.log
    assert list(folder.iterdir()) == []
    # A requeue finds its own link.
    (tmp_path / "fence").unlink()
    assert job.run("echo again", log_files=[str(stale)]) == 0
    assert "again" in stale.read_text()


def test_log_on_another_file_system_is_linked(job: Job) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        path = Path(other, "task-{a}.log")
        assert job.run("echo said", log_files=[str(path)], around={"SLURM_ARRAY_TASK_ID": "3"}) == 0
        assert Path(other, "task-3.log").readlink() == job.folder / "output-3.log"


def test_log_that_does_not_fit_on_its_disk_is_the_reason(tmp_path: Path) -> None:
    """The program cannot say so itself: what it writes is lost."""
    command = "head -c 300000 /dev/zero > data 2> /dev/null; exit 120"
    with mounted(tmp_path / "full", "size=256k") as place:
        job = Job(place)
        assert job.run(command) == EXIT_LOG_FULL
        outcome = json.loads((place / "outcome").read_text())
        assert outcome["reason"] == "failed"
        assert "ended with exit code 120, and its log does not fit" in outcome["message"]
        assert f": 256 KiB of 256 KiB of the file system of {place} are used" in outcome["message"]
        left = {path.name for path in place.iterdir() if not UNNEEDED.fullmatch(path.name)}
        assert left == {"data", "fence", "output.log"}
    other = tmp_path / "other"
    other.mkdir()
    job = Job(other)
    assert job.run("exit 120") == 120
    assert json.loads((other / "outcome").read_text())["message"] is None
