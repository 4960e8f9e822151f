"""The contract of every runtime."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from aitne.bootstrap.adapters import RUNTIMES
from aitne.core.jobs.states import TerminationReason
from aitne.core.ports.runtime import Bind
from tests.contract.runtimes.bench import Bench, platform
from tests.contract.runtimes.conftest import CONTAINED
from tests.support import realtime
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

COUNTER = """
import os, signal, sys, time
seen = {}
def count(number, _):
    name = signal.Signals(number).name
    seen[name] = seen.get(name, 0) + 1
    os.write(1, f"{name} {seen[name]}\\n".encode())
    if number == signal.SIGINT:
        sys.exit(9)
for name in ("SIGUSR1", "SIGUSR2", "SIGTERM", "SIGHUP", "SIGCONT", "SIGINT"):
    signal.signal(getattr(signal, name), count)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""
ODD = (
    "com,ma",
    "co:lon",
    'quo"te',
    "apo'strophe",
    "two  spaces ",
    "new\nline",
    "tab\t",
    "back\\slash",
    "dol$HOME",
    "$(id)",
    "`id`",
    "a=b",
    "%s{x}*?[a]",
    "-rf",
    "ünï",
)


def test_every_runtime_is_tried() -> None:
    assert set(RUNTIMES.all()) == {"bare", *(name.partition(" ")[0] for name in CONTAINED)}


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_exit_codes_pass_through(bench: Bench, script: str, code: int) -> None:
    assert bench.start("sh", "-c", script).end() == code


def test_signals_reach_the_program_once(bench: Bench) -> None:
    run = bench.start("python3", "-c", COUNTER)
    run.until("ready")
    for name in ("SIGUSR1", "SIGTERM", "SIGHUP", "SIGCONT", "SIGUSR2", "SIGINT"):
        run.signal(getattr(signal, name))
        run.until(f"{name} 1")
    assert run.end() == 9
    assert sorted(run.out.split("\n")) == sorted(
        ["ready", *(f"SIG{name} 1" for name in ("USR1", "TERM", "HUP", "CONT", "USR2", "INT")), ""]
    )


def test_output_streams_while_the_program_runs(bench: Bench) -> None:
    run = bench.start("sh", "-c", "echo one; echo two >&2; while [ ! -e go ]; do sleep 0.02; done")
    run.until("one\n")
    eventually("the other stream", lambda: run.err == "two\n")
    assert run.process.poll() is None
    (bench.home / "go").touch()
    assert run.end() == 0
    assert (run.out, run.err) == ("one\n", "two\n")


def test_output_arrives_whole(bench: Bench) -> None:
    content = os.urandom(3_000_000)
    (bench.home / "data").write_bytes(content)
    run = bench.start("cat", "data")
    assert run.end() == 0
    got = (run.folder / "out").read_bytes()
    assert hashlib.sha256(got).digest() == hashlib.sha256(content).digest()


def test_standard_input_reaches_a_sessions_program(bench: Bench) -> None:
    app = {
        "name": "lab",
        "kind": "jupyterhub",
        "argv": ["python3", "-c", "import sys; print(sys.stdin.read(), end='')"],
        "readiness_path": "/",
        "timeout_s": 30,
    }
    with platform() as (url, _):
        run = bench.start(agent={"commands": [], "apps": [app], "platform_url": url})
        assert run.end() == 0, run.err
    (line,) = run.out.splitlines()
    assert json.loads(line)["env"]["HANDED"] == 'o\'ver "$x"'


def test_the_gpus_of_the_job_arrive(bench: Bench) -> None:
    run = bench.sh('echo "$CUDA_VISIBLE_DEVICES"', around={"CUDA_VISIBLE_DEVICES": "GPU-1,3"})
    assert run.out == "GPU-1,3\n"


def test_variables_arrive_as_they_are_and_home_is_home(bench: Bench) -> None:
    odd = "$HOME `id` $(id) \"q\" 'a' \\ , = ü\nline"
    run = bench.run(
        "python3",
        "-c",
        "import json, os; print(json.dumps(dict(os.environ)))",
        env={"ODD": odd, "LD_LIBRARY_PATH": "/odd/lib", "PATH": "/odd/bin:/usr/bin:/bin"},
    )
    found = json.loads(run.out)
    assert found["ODD"] == odd
    assert found["PATH"].startswith("/odd/bin:")
    assert found["LD_LIBRARY_PATH"].split(":")[0] == "/odd/lib"
    assert found["HOME"] == str(bench.home)


def test_no_value_of_a_variable_stands_in_an_argument(bench: Bench) -> None:
    run = bench.start("sh", "-c", "echo ready; sleep 60", env={"TOKEN": "very-secret-value"})
    run.until("ready")
    lines = [" ".join(each.cmdline()) for each in run.agent.children(recursive=True)]
    run.signal(signal.SIGTERM)
    run.end()
    assert lines
    assert not [line for line in lines if "very-secret" in line]


def test_container_environment_contains_no_variables_of_node(box: Bench) -> None:
    around = {
        "SECRET": "x1",
        "AWS_SECRET_ACCESS_KEY": "x2",
        "SLURM_JWT": "x3",
        "AITNE_DATABASE": "x4",
        "APPTAINERENV_SNEAKED": "x5",
        "SINGULARITYENV_SNEAKED": "x6",
        "APPTAINER_BINDPATH": "/etc:/mnt",
        "SINGULARITY_BIND": "/etc:/mnt",
        "DOCKER_HOST": "unix:///nowhere",
        "PYTHONPATH": "/nowhere",
        "LD_PRELOAD": "",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "SLURM_JOB_ID": "12",
    }
    run = box.sh("ls /mnt; env", around=around)
    names = {line.partition("=")[0] for line in run.out.splitlines()}
    image_own = {"PATH", "PWD", "HOME", "HOSTNAME", "LANG", "LD_LIBRARY_PATH", "PS1", "TERM"}
    runtime_own = {name for name in names if name.startswith(("APPTAINER_", "SINGULARITY_"))}
    # The agent's own word, and what the scheduler says.
    passed = {
        *("AITNE_CHECKPOINTS", "AITNE_METRICS", "MASTER_PORT", "NVIDIA_VISIBLE_DEVICES"),
        *("SLURM_JOB_ID", "SLURM_SUBMIT_DIR"),
    }
    assert names - image_own - runtime_own - {"PROMPT_COMMAND", "OLDPWD"} == passed
    assert not any(f"={value}" in run.out for value in ("x1", "x2", "x3", "x4", "x5", "x6"))
    assert "/etc" not in run.out


def test_the_user_is_who_asked(bench: Bench) -> None:
    run = bench.sh("id -u; id -g; touch mine")
    account = bench.account
    assert run.out.split() == [str(account.pw_uid), str(account.pw_gid)]
    assert (bench.home / "mine").stat().st_uid == account.pw_uid


def test_a_program_has_no_capability_and_can_gain_none(box: Bench) -> None:
    run = box.sh("grep -E '^(Cap|NoNewPrivs)' /proc/self/status")
    found = dict(line.split(":\t") for line in run.out.splitlines())
    assert found.pop("NoNewPrivs") == "1"
    assert set(found.values()) == {"0" * 16}


def test_other_processes_are_not_seen(box: Bench) -> None:
    run = box.sh(f"test ! -e /proc/{os.getpid()} && readlink /proc/self/ns/pid /proc/self/ns/ipc")
    pid, ipc = run.out.split()
    assert pid != os.readlink("/proc/self/ns/pid")
    assert ipc != os.readlink("/proc/self/ns/ipc")


def test_a_read_only_bind_refuses_writes_and_a_writable_one_takes_them(box: Bench) -> None:
    shared, mine = box.folder("shared"), box.folder("mine")
    script = (
        "import errno\n"
        "open('/mnt/mine/new', 'w').write('x')\n"
        "for name in ('/mnt/shared/new', '/mnt/shared/old'):\n"
        "    try:\n        open(name, 'w')\n"
        "    except OSError as error:\n        print(error.errno)\n"
    )
    (shared / "old").write_text("kept")
    os.chown(shared / "old", box.account.pw_uid, -1)
    run = box.run(
        "python3",
        "-c",
        script,
        binds=(
            Bind(source=str(mine), target="/mnt/mine", writable=True),
            Bind(source=str(shared), target="/mnt/shared"),
        ),
    )
    assert run.out.split() == [str(errno.EROFS)] * 2
    assert (mine / "new").read_text() == "x"
    assert (shared / "old").read_text() == "kept"


def test_a_bind_below_another_keeps_its_own_mode(box: Bench) -> None:
    folder = box.folder("area")
    (folder / "data").mkdir()
    os.chown(folder / "data", box.account.pw_uid, -1)
    run = box.sh(
        "touch area/ok; touch area/data/no 2>&1 || true",
        binds=(Bind(source=str(folder / "data"), target=str(folder / "data")),),
    )
    assert "Read-only file system" in run.out
    assert (folder / "ok").exists()


def test_any_folder_can_be_bound(box: Bench) -> None:
    binds = []
    for number, name in enumerate(ODD):
        folder = box.folder(name)
        (folder / "here").write_text(f"{number}\n")
        binds.append(Bind(source=str(folder), target=f"/mnt/{name}"))
    places = [f"/mnt/{name}/here" for name in ODD]
    run = box.run("cat", *places, binds=tuple(binds))
    assert run.out.split() == [str(number) for number in range(len(ODD))]


def test_the_working_directory_may_be_odd(box: Bench) -> None:
    folder = box.folder('o\'dd, "$HOME"')
    run = box.run("python3", "-c", "import os; print(os.getcwd())", workdir=folder)
    assert run.out == f"{folder}\n"


def test_arguments_arrive_as_they_are(box: Bench) -> None:
    odd = [*ODD, "", "--privileged", "--", "\x01"]
    run = box.run("python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *odd)
    assert json.loads(run.out) == odd


def test_temporary_files_and_caches_are_on_the_nodes_disk(box: Bench) -> None:
    run = box.start(
        "sh",
        "-c",
        "echo x > /tmp/a; echo x > /var/tmp/b; echo ready; while [ ! -e go ]; do sleep 0.02; done",
    )
    run.until("ready")
    (own,) = (run.folder / "local").iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert (own / "tmp" / "a").exists()
    assert (own / "var_tmp" / "b").exists()
    (box.home / "go").touch()
    assert run.end() == 0
    assert not [path for path in box.home.iterdir() if path.name.startswith(".")]


def test_the_image_is_read_only_unless_asked(box: Bench) -> None:
    script = "touch /made 2>/dev/null && echo made || echo refused"
    assert box.sh(script).out == "refused\n"
    assert box.sh(script, writable=True).out == "made\n"


def test_without_network_there_is_only_loopback(box: Bench) -> None:
    script = "import socket\nprint([name for _, name in socket.if_nameindex()])"
    assert box.run("python3", "-c", script, network=False).out == "['lo']\n"
    here = sorted(psutil.net_if_addrs())
    run = box.run("python3", "-c", script.replace("print(", "print(sorted(").replace("])", "]))"))
    assert run.out == f"{here}\n"


def test_a_program_that_is_not_there(box: Bench) -> None:
    run = box.start("no-such-program")
    assert run.end() != 0
    assert "no-such-program" in run.err


def test_a_bind_that_is_gone_is_said(box: Bench) -> None:
    run = box.start("true", binds=(Bind(source="/nowhere/at/all", target="/mnt/x"),))
    assert run.end() != 0
    assert run.outcome.reason is TerminationReason.START_FAILED
    assert "/nowhere/at/all" in (run.outcome.message or "")


def test_processes_end_after_sigterm(bench: Bench) -> None:
    run = bench.start("sh", "-c", "sleep 300 & echo ready; exec sleep 300")
    run.until("ready")
    run.signal(signal.SIGTERM)
    if bench.contained:
        assert run.end() == 143
    else:  # the group of a bare program is all there is; the scheduler ends what leaves it
        assert run.process.wait(30) == 0


@pytest.mark.parametrize("writable", [False, True])
def test_a_signal_to_all_processes_leaves_the_program_its_files(
    apptainer: Bench, writable: bool
) -> None:
    # What the image itself holds: /usr is the node's, and what was read before is remembered.
    script = (
        "trap 'sleep 0.5; cat /etc/group >/dev/null && ls -l /var /etc >/dev/null && echo saved;"
        " exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    )
    run = apptainer.start("bash", "-c", script, writable=writable)
    run.until("ready")
    for process in [run.agent, *run.agent.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    assert run.end() == 5, run.err
    assert run.out.endswith("saved\n")
    assert "Bus error" not in run.err


def test_processes_end_after_launching_program_is_killed(box: Bench) -> None:
    run = box.start("sh", "-c", "sleep 300 & echo ready; exec sleep 300")
    run.until("ready")
    run.launcher().send_signal(signal.SIGKILL)
    assert run.end() == 137


def test_apptainer_leaves_no_mounts(apptainer: Bench) -> None:
    def mounts() -> list[str]:
        """Return the mounts of Apptainer; other tests have mounts of their own meanwhile."""
        marks = ("fuse", "apptainer", "singularity", str(apptainer.home))
        lines = Path("/proc/mounts").read_text().splitlines()
        return [line for line in lines if any(mark in line for mark in marks)]

    before = mounts()
    assert "/" in apptainer.sh("echo /").out
    assert mounts() == before
