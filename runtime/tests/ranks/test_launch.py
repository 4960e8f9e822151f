"""``aitne-run`` with real processes: what it prints, how it ends, and what it leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import aitne_train.launcher
from tests.support import realtime
from tests.support.alive import alive
from tests.support.launching import ON, RUN, SAVES, StartedRun, clean, nothing_left, program, run
from tests.support.waiting import eventually

pytestmark = realtime.RANKS

__all__ = ["nothing_left"]


# --- places and output ---------------------------------------------------------------------------


def test_tells_every_rank_its_place() -> None:
    done = run("-np", "3", *program("import json; print(json.dumps(dict(os.environ)))"))
    assert done.returncode == 0, done.stderr
    ranks = sorted(map(json.loads, done.stdout.splitlines()), key=lambda each: int(each["RANK"]))
    for number, each in enumerate(ranks):
        for name in ("RANK", "LOCAL_RANK", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK"):
            assert each[name] == str(number)
        for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"):
            assert each[name] == "3"
        assert (each["HOROVOD_CROSS_RANK"], each["HOROVOD_CROSS_SIZE"]) == ("0", "1")
        assert (each["GROUP_RANK"], each["AITNE_RUN_RESTARTS"]) == ("0", "0")
    for same in ("MASTER_ADDR", "MASTER_PORT", "AITNE_RENDEZVOUS", "AITNE_RENDEZVOUS_TOKEN"):
        assert len({each[same] for each in ranks}) == 1


@pytest.mark.parametrize("ranks", ["ours", "mpirun"])
def test_ranks_inside_a_task_of_slurm_are_not_told_its_number(ranks: str) -> None:
    task = {"JOB_ID": "7", "PROCID": "0", "LOCALID": "0", "NODEID": "0", "NTASKS": "1"}
    env = clean(**{f"SLURM_{name}": value for name, value in task.items()})
    show = program("print(rank, *(os.environ[f'SLURM_{name}'] for name in sys.argv[1:]))")
    words = [*show, "PROCID", "LOCALID", "NODEID", "NTASKS", "NTASKS_PER_NODE"]
    if ranks == "ours":
        done = run("-np", "2", *words, env=env)
    else:  # as mpirun in a batch script tells them
        for number in ("0", "1"):
            names = {"RANK": number, "SIZE": "2", "LOCAL_RANK": number, "LOCAL_SIZE": "2"}
            mpi = {f"OMPI_COMM_WORLD_{name}": value for name, value in names.items()}
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
            done = run(*words, env={**env, **mpi, **meeting})
            assert done.stdout == f"{number} {number} {number} 0 2 2\n", done.stderr
        return
    assert sorted(done.stdout.splitlines()) == ["0 0 0 0 2 2", "1 1 1 0 2 2"], done.stderr


def test_ranks_meet() -> None:
    meet = (
        "from aitne_train.launcher.rendezvous_store_client import join_store\nfrom aitne_train.launcher.rank_detection import detect_topology\n"
        "world = detect_topology(os.environ); store = join_store(world, os.environ)\n"
        "store.set(f'from{rank}', b'%d' % rank)\n"
        "print(sorted(store.get(f'from{each}', 30) for each in range(world.size)))"
    )
    done = run("-np", "3", *program(meet))
    assert done.stdout == "[b'0', b'1', b'2']\n" * 3, done.stderr


def test_the_second_program_of_a_script_finds_nothing_of_the_first() -> None:
    meet = (
        "from aitne_train.launcher.rendezvous_store_client import join_store\nfrom aitne_train.launcher.rank_detection import detect_topology\n"
        "store = join_store(detect_topology(os.environ), os.environ)\n"
        "print(sys.argv[1], store.claim(f'from{rank}', b''))\n"
        "store.get(f'from{1 - rank}', 30)"
    )
    script = '"$@" first && "$@" second'
    done = run("-np", "2", "bash", "-c", script, "bash", *program(meet)[1:])
    assert sorted(done.stdout.splitlines()) == [
        *["first True"] * 2,
        *["second True"] * 2,
    ], done.stderr


def test_every_byte_of_much_output_comes_through_in_whole_lines() -> None:
    done = run(
        "-np",
        "3",
        *program(
            "for n in range(20_000): sys.stdout.write(f'{rank} {n} ' + 'x' * (n % 200) + '\\n')"
        ),
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    for rank in range(3):
        own = [line for line in lines if line.startswith(f"{rank} ")]
        assert own == [f"{rank} {n} " + "x" * (n % 200) for n in range(20_000)]
    assert len(lines) == 60_000


def test_bytes_that_are_no_text_and_no_newline_at_the_end() -> None:
    done = subprocess.run(
        [*RUN, "-np", "1", *program("sys.stdout.buffer.write(bytes(range(256)))")],
        env=clean(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == bytes(range(256))


def test_lines_without_an_end_do_not_run_into_each_other() -> None:
    done = run("-np", "3", *program("sys.stdout.write(f'rank {rank}')"))
    assert sorted(done.stdout.split("\n")) == ["rank 0", "rank 1", "rank 2"]


def test_prefixes_lines_when_asked_to() -> None:
    done = run(
        "-np", "2", "--prefix", *program("print('a'); print('b'); print('c', file=sys.stderr)")
    )
    assert sorted(done.stdout.splitlines()) == ["[0] a", "[0] b", "[1] a", "[1] b"]
    assert {"[0] c", "[1] c"} <= set(done.stderr.splitlines())


def test_gives_the_input_to_rank_0_alone() -> None:
    done = run("-np", "2", *program("print(rank, repr(sys.stdin.read()))"), stdin="words")
    assert sorted(done.stdout.splitlines()) == ["0 'words'", "1 ''"]


def test_binds_ranks_to_cpus_of_their_own() -> None:
    cpus = len(os.sched_getaffinity(0))
    if cpus < 2:
        pytest.skip("needs two CPUs")
    done = run("-np", "2", "--bind", *program("print(sorted(os.sched_getaffinity(0)))"))
    first, second = (set(json.loads(line)) for line in done.stdout.splitlines())
    assert first.isdisjoint(second)
    assert len(first | second) == cpus


def test_says_when_there_are_too_few_cpus_to_bind_to() -> None:
    done = run("-np", str(len(os.sched_getaffinity(0)) + 1), "--bind", "true")
    assert done.returncode == 0
    assert "ranks are not bound" in done.stderr


def test_a_port_that_somebody_has_is_not_given_to_ranks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        text = "import socket; socket.create_server(('', int(os.environ['MASTER_PORT']))).close() if not rank else None"
        done = run("-np", "2", *program(text), env=clean(MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
    assert done.returncode == 0, done.stderr


def test_ranks_have_a_port_that_is_held_until_they_listen() -> None:
    text = (
        "import socket\n"
        "port = int(os.environ['MASTER_PORT'])\n"
        "try: socket.socket().bind(('', port))\n"
        "except OSError: print('held')\n"
        "if not rank: socket.create_server(('', port)).close()"
    )
    done = run("-np", "2", *program(text))
    assert (done.returncode, done.stdout) == (0, "held\n" * 2), done.stderr


def test_port_in_use_restarts_the_ranks_once() -> None:
    text = (
        "port = os.environ['MASTER_PORT']\n"
        "print(port, flush=True)\n"
        "sys.exit(f'port: {port}, name: EADDRINUSE' if os.environ['AITNE_RUN_RESTARTS'] in {again} else 0)"
    )
    done = run("-np", "1", *program(text.replace("{again}", "'0'")))
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 2
    done = run("-np", "1", *program(text.replace("{again}", "'01'")))
    assert done.returncode == 1
    assert len(done.stdout.split()) == 2


def test_goes_on_when_nobody_reads_its_output() -> None:
    command = f"{' '.join(RUN)} -np 2 yes | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=clean(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "y\n"


# --- failures ------------------------------------------------------------------------------------


def test_a_failing_rank_ends_all_and_is_named_with_its_traceback() -> None:
    done = run(
        "-np",
        "3",
        *program("import time\nif rank == 1: raise ValueError('no such data')\ntime.sleep(600)"),
    )
    assert done.returncode == 1
    report = done.stderr[done.stderr.index("aitne-run: rank 1 on node") :]
    assert "ended with exit code 1" in report.splitlines()[0]
    assert "  | Traceback (most recent call last):" in report
    assert "  | ValueError: no such data" in report


def test_the_cause_is_named_and_not_its_echo() -> None:
    """Rank 0 notices at once that rank 1 has failed, which takes its time to end."""
    text = (
        "import time, pathlib; sign = pathlib.Path(os.environ['AITNE_RUN_DIR'], 'failing')\n"
        "class HorovodInternalError(RuntimeError): pass\n"
        "if rank == 1:\n"
        "    try: raise KeyError('label')\n"
        "    finally: sign.touch(); time.sleep(0.7)\n"
        "while not sign.exists(): time.sleep(0.01)\n"
        "raise HorovodInternalError('rank 1 is gone')"
    )
    done = run("-np", "2", *program(text))
    assert "aitne-run: rank 1 on node" in done.stderr
    assert "  | KeyError: 'label'" in done.stderr
    assert "aitne-run: rank 0" not in done.stderr


def test_a_rank_that_leaves_with_0_is_named_first(tmp_path: Path) -> None:
    text = (
        "import time, pathlib; sign = pathlib.Path(os.environ['AITNE_RUN_DIR'], 'left')\n"
        "if rank == 1:\n"
        "    sign.touch(); os._exit(0)\n"
        "while not sign.exists(): time.sleep(0.01)\n"
        "raise ConnectionResetError('Connection reset by peer')"
    )
    done = run("-np", "2", *program(text), env=clean(AITNE_RUN_DIR=str(tmp_path)))
    assert done.returncode == 1
    report = next(line for line in done.stderr.splitlines() if line.startswith("aitne-run: rank"))
    assert report.startswith("aitne-run: rank 1 on node")
    assert "ended with exit code 0 before the others: rank 0 on node" in report
    facts = json.loads((tmp_path / "failed-0.json").read_text())
    assert facts["rank"] == 1
    assert facts["message"] == report[len("aitne-run: ") :].removesuffix(". Its last output:")


def test_a_killed_rank_ends_all_and_its_signal_is_named() -> None:
    begun = StartedRun("-np", "2", *program(ON))
    pids = begun.ready(2)
    os.kill(pids[1], signal.SIGKILL)
    code, errors = begun.end()
    assert code == 128 + signal.SIGKILL
    assert "rank 1 on node" in errors
    assert "SIGKILL" in errors
    assert not alive(pids[0])


def test_the_exit_code_does_not_hang_on_a_folder_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "failed-0.json.new").mkdir()
    done = run("-np", "1", *program("sys.exit(7)"), env=clean(AITNE_RUN_DIR=str(tmp_path)))
    assert done.returncode == 7
    assert "Traceback" not in done.stderr
    assert "failed-0.json cannot be written" in done.stderr


def test_a_rank_that_will_not_end_is_killed() -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    begun = StartedRun("-np", "2", *program(stubborn + ON))
    pids = begun.ready(2)
    os.kill(pids[0], signal.SIGKILL)
    assert begun.end()[0] == 128 + signal.SIGKILL
    assert not alive(pids[1])


def test_background_processes_of_rank_end_with_run() -> None:
    text = (
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print('ready', rank, child.pid, flush=True)"
    )
    begun = StartedRun("-np", "2", *program(text))
    pids = begun.ready(2)
    assert begun.end()[0] == 0
    assert not any(alive(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_processes_end_after_launcher_is_killed(number: signal.Signals) -> None:
    text = (
        "import subprocess, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=bool(rank))\n"
        "print('ready', rank, os.getpid(), flush=True); print('ready', 10 + rank, child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    begun = StartedRun("-np", "2", *program(text))
    pids = begun.ready(4)
    os.kill(begun.pid, number)
    eventually("all are gone", lambda: not any(alive(pid) for pid in pids))
    assert begun.end()[0] == -number


def test_a_program_that_is_not_there() -> None:
    done = run("-np", "2", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program cannot be started: No such file or directory" in done.stderr


def test_failure_files_are_removed_when_ranks_restart(tmp_path: Path) -> None:
    text = "sys.exit(int(os.environ['AITNE_RUN_RESTARTS']) < int(os.environ['FAILS']))"
    for fails, left in (("2", ["failed-0.json"]), ("1", [])):
        env = clean(AITNE_RUN_DIR=str(tmp_path / "run"), FAILS=fails)
        done = run("-np", "2", "--restarts", "1", *program(text), env=env)
        assert done.returncode == len(left)
        assert [path.name for path in (tmp_path / "run").glob("failed-*")] == left


def test_starts_all_anew_with_keys_and_a_port_of_their_own() -> None:
    text = (
        "again = int(os.environ['AITNE_RUN_RESTARTS'])\n"
        "if rank: print(again, os.environ['AITNE_RENDEZVOUS_PREFIX'], flush=True)\n"
        "import time\n"
        "if again < 2:\n"
        "    if rank: sys.exit(3)\n"
        "    time.sleep(600)"
    )
    done = run("-np", "2", "--restarts", "2", *program(text))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [again for again, _ in lines] == ["0", "1", "2"]
    assert len({prefix for _, prefix in lines}) == 3
    assert run("-np", "2", "--restarts", "1", *program("sys.exit(4)")).returncode == 4


# --- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_passes_signals_on_and_ends_by_them(
    number: signal.Signals, request: pytest.FixtureRequest
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        # By nohup, say. What is started here would inherit that, and rightly keep to it.
        signal.signal(number, signal.SIG_DFL)
        request.addfinalizer(lambda: signal.signal(number, signal.SIG_IGN))
    begun = StartedRun(
        "-np", "2", *program("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\n" + ON)
    )
    begun.ready(2)
    os.kill(begun.pid, number)
    code, errors = begun.end()
    assert code == 128 + number
    assert "rank" not in errors


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_ranks_that_were_told_to_end_save_and_say_so(number: signal.Signals) -> None:
    begun = StartedRun("-np", "2", "--restarts", "3", *program(SAVES + ON))
    begun.ready(2)
    os.kill(begun.pid, number)
    code, errors = begun.end()
    assert code == 75
    assert {"saved 0", "saved 1"} <= set(begun.said)
    assert "anew" not in errors


def test_a_rank_that_hangs_after_the_signal_does_not_keep_the_others() -> None:
    hangs = "if rank == 1: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    begun = StartedRun("-np", "2", "--grace", "1", *program(SAVES + hangs + ON))
    begun.ready(2)
    os.kill(begun.pid, signal.SIGTERM)
    assert begun.end()[0] == 75


def test_asked_twice_it_does_not_wait() -> None:
    stubborn = "import signal\nfor each in (2, 15): signal.signal(each, signal.SIG_IGN)\n"
    begun = StartedRun("-np", "2", "--grace", "600", *program(stubborn + ON))
    begun.ready(2)
    os.kill(begun.pid, signal.SIGINT)
    eventually("the first is noticed", lambda: signal_was_taken(begun.pid))
    os.kill(begun.pid, signal.SIGINT)
    assert begun.end()[0] == 128 + signal.SIGINT


def signal_was_taken(pid: int) -> bool:
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return int(status["ShdPnd"], 16) == 0


def test_runs_as_one_file(tmp_path: Path) -> None:
    archive = tmp_path / "launcher.pyz"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(
            "__main__.py",
            "import sys\nfrom aitne_train.launcher.main import main\nsys.exit(main(sys.argv[1:]))\n",
        )
        packed.writestr("aitne_train/__init__.py", "")
        for path in Path(aitne_train.launcher.__file__).parent.glob("*.py"):
            packed.write(path, f"aitne_train/launcher/{path.name}")
    words = [sys.executable, "-I", str(archive), "-np", "2", "sh", "-c", "echo $RANK; exit 5"]
    done = subprocess.run(
        words, env=clean(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 5
    assert set(done.stdout.split()) <= {"0", "1"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["true"], "the number of ranks is not known: give -np"),
        (["-np", "2"], "no program is given"),
        (["-np", "2", ""], "no program is given"),
        (["-np", "none", "true"], "'none' is not a number of at least 1"),
        (["-H", "a:0", "true"], "not a list of hosts such as a:2,b:2"),
        (["-H", "a:1,a:1", "true"], "a is named twice"),
        (["-H", "a:1,b:1", "-np", "3", "true"], "3 ranks are requested, but the hosts take 2"),
        (["-H", "a:1", "--launcher", "local", "true"], "a include other nodes"),
        (["-np", "2", "--launcher", "srun", "true"], "works inside a Slurm job"),
        (
            ["-np", "2", "--launcher", "local", "--transport", "mpi", "true"],
            "needs ranks that MPI has started",
        ),
        (["--hostfile", "/no/such/file", "true"], "/no/such/file cannot be read"),
    ],
)
def test_says_what_is_wrong_with_a_command(words: list[str], told: str) -> None:
    done = run(*words)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr
