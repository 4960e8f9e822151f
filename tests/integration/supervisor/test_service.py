"""The supervisor restarts its children and ends them when it ends."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from aitne.cli.main import main
from aitne.supervisor import platform_control
from tests.integration.supervisor.conftest import SLEEPER, Supervised
from tests.support import realtime
from tests.support.alive import alive
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES


def held_processes(text: str) -> list[int]:
    """Return the PIDs of the Python processes whose code contains ``text``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            argv = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"-c" in argv and text.encode() in argv[argv.index(b"-c") + 1]:
            found.append(int(folder.name))
    return found


def test_supervisor_starts_all_processes_and_reports_them(supervised: Supervised) -> None:
    assert supervised.start() == 0
    supervised.until_ready()
    status = supervised.status()
    assert [process["name"] for process in status["processes"]] == [
        "api",
        "controller",
        "hub",
        "proxy",
    ]
    for process in status["processes"]:
        assert alive(process["pid"])
        assert process["memory_bytes"] > 1_000_000
        assert process["restarts"] == 0
    assert status["url"] == f"http://127.0.0.1:{supervised.port}"
    assert status["data_dir"] == str(supervised.data_dir)
    path = supervised.data_dir / "run" / "supervisor.sock"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_second_one_is_refused(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    before = supervised.status()
    assert supervised.start() == 3
    assert supervised.status() | {"processes": []} == before | {"processes": []}


@pytest.mark.parametrize("name", ["api", "controller", "hub", "proxy"])
def test_killed_child_is_started_again(supervised: Supervised, name: str) -> None:
    supervised.start()
    supervised.until_ready()
    for _ in range(4):
        before = supervised.pid(name)
        others = {process["pid"] for process in supervised.status()["processes"]} - {before}
        os.kill(before, signal.SIGKILL)
        eventually("it is started again", lambda old=before: supervised.pid(name) not in (0, old))
        assert others <= {process["pid"] for process in supervised.status()["processes"]}
        supervised.until_ready()
    restarts = {one["name"]: one["restarts"] for one in supervised.status()["processes"]}
    assert restarts.pop(name) == 4
    assert set(restarts.values()) == {0}


def test_process_that_answers_with_an_error_is_not_killed(supervised: Supervised) -> None:
    supervised.hub = ("200,503",)
    supervised.hung_after_s = 0.3
    supervised.start()
    eventually("it runs", lambda: supervised.pid("hub"))
    eventually("it was probed often", lambda: len(supervised.asked("hub")) > 20)
    hub = next(one for one in supervised.status()["processes"] if one["name"] == "hub")
    assert (hub["restarts"], hub["answers"]) == (0, False)


def test_api_that_answers_on_its_socket_alone_is_ready(supervised: Supervised) -> None:
    supervised.probe_socket = "api.sock"
    supervised.before_api = """if True:
        import http.server, socketserver
        def listen(address, handler):
            return socketserver.UnixStreamServer("run/api.sock", handler)
        http.server.HTTPServer = listen
    """
    supervised.start()
    supervised.until_ready()
    asked = {line.split()[1] for line in supervised.asked("api")}
    assert asked == {"/healthz", "/readyz"}


def test_process_that_starts_slowly_is_not_killed(supervised: Supervised) -> None:
    supervised.hub = ("200", "1.5")
    supervised.hung_after_s = 0.3
    supervised.start()
    supervised.until_ready()
    assert [one["restarts"] for one in supervised.status()["processes"]] == [0, 0, 0, 0]


def test_process_that_is_stopped_during_its_start_is_restarted(supervised: Supervised) -> None:
    supervised.hub = ("200", "1000")
    supervised.hung_after_s = 0.6
    supervised.start()
    stopped = eventually("it runs", lambda: supervised.pid("hub"))
    os.kill(stopped, signal.SIGSTOP)
    eventually("it is started again", lambda: supervised.pid("hub") not in (0, stopped))
    log = (supervised.data_dir / "logs" / "supervisor.log").read_text()
    assert "hub has not answered for" in log


@pytest.mark.parametrize("name", ["hub", "proxy"])
def test_the_hub_is_asked_to_restore_the_routes(supervised: Supervised, name: str) -> None:
    def asked() -> int:
        token = (supervised.data_dir / "secrets" / "hub_api_token").read_text().strip()
        return supervised.asked("hub").count(f"POST /hub/api/proxy token {token}")

    supervised.start()
    supervised.until_ready()
    eventually("it was asked", lambda: asked() == 1)
    before = supervised.pid(name)
    os.kill(before, signal.SIGKILL)
    eventually("it was asked again", lambda: asked() == 2)
    assert supervised.pid(name) != before


def test_a_restart_can_be_asked_for(
    supervised: Supervised, capfd: pytest.CaptureFixture[str]
) -> None:
    supervised.start()
    supervised.until_ready()
    before = supervised.pid("api")
    where = ["--data-dir", str(supervised.data_dir)]
    assert main(["restart", "api", *where]) == 0
    eventually("it is started again", lambda: supervised.pid("api") not in (0, before))
    assert main(["restart", "nobody", *where]) != 0
    assert re.search(r"nobody cannot be restarted: .*\bcontroller\b", capfd.readouterr().err)


def test_running_platform_serves_until_the_one_that_replaces_it_is_loaded(
    supervised: Supervised, tmp_path: Path
) -> None:
    loaded, inits = tmp_path / "loaded", tmp_path / "inits"
    wait = (
        "from aitne.local_system import held_process_start; held_process_start.wait_for_release()\n"
    )
    supervised.held = ("init", "api")
    supervised.before_api = wait
    supervised.init = [sys.executable, "-c", f"{wait}open({str(inits)!r}, 'a').write('x')"]
    supervised.start()
    supervised.until_ready()
    before = supervised.status()
    supervised.before_api = f"""
import pathlib, time
while not pathlib.Path({str(loaded)!r}).exists():
    time.sleep(0.02)
{wait}"""
    assert supervised.start("--detach", "--replace") == 0
    (new,) = eventually("it loads", lambda: held_processes(str(loaded)))
    supervised.pids.add(new)
    assert supervised.status()["state"] == "ready"
    assert supervised.status()["supervisor_pid"] == before["supervisor_pid"]
    assert inits.read_text() == "x"
    loaded.touch()
    eventually("it is replaced", lambda: supervised.pid("api") == new)
    supervised.until_ready()
    assert supervised.status()["supervisor_pid"] != before["supervisor_pid"]
    assert not any(alive(process["pid"]) for process in before["processes"])
    assert [one["restarts"] for one in supervised.status()["processes"]] == [0, 0, 0, 0]
    assert inits.read_text() == "xx"


def test_running_platform_continues_if_the_one_that_replaces_it_cannot_be_loaded(
    supervised: Supervised,
) -> None:
    supervised.start()
    supervised.until_ready()
    before = supervised.status()
    supervised.held = ("api",)
    supervised.before_api = "raise SystemExit('no module')\n"
    assert supervised.start("--detach", "--replace") == 0
    failure = supervised.data_dir / "run" / "failure"
    eventually("it has failed", failure.exists)
    assert "no module" in failure.read_text()
    assert supervised.status()["state"] == "ready"
    assert supervised.status() | {"processes": []} == before | {"processes": []}


def test_children_die_with_their_supervisor(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    status = supervised.status()
    os.kill(status["supervisor_pid"], signal.SIGKILL)
    pids = [process["pid"] for process in status["processes"]]
    eventually("all are gone", lambda: not any(map(alive, pids)))
    assert platform_control.get_status(supervised.data_dir) is None
    # What it left behind is no obstacle, and jobs that it left can still be ended.
    assert supervised.start() == 0
    supervised.until_ready()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket on which systemd hears from the supervisor."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(60)
        listening.bind(str(tmp_path / "notify"))
        yield listening


def test_service_manager_is_notified(supervised: Supervised, manager: socket.socket) -> None:
    supervised.start()
    while (message := manager.recv(100)) != b"READY=1":
        assert message == b"WATCHDOG=1"
    assert supervised.status()["state"] == "ready"
    pid = supervised.status()["supervisor_pid"]
    os.kill(pid, signal.SIGSTOP)
    eventually("it is stopped", lambda: " T " in Path(f"/proc/{pid}/stat").read_text())
    while select.select([manager], [], [], 0)[0]:
        assert manager.recv(100) == b"WATCHDOG=1"
    os.kill(pid, signal.SIGCONT)
    assert manager.recv(100) == b"WATCHDOG=1"
    os.kill(pid, signal.SIGTERM)
    while (message := manager.recv(100)) != b"STOPPING=1":
        assert message == b"WATCHDOG=1"


def test_reload_makes_the_new_supervisor_the_main_process_before_the_old_one_ends(
    supervised: Supervised, manager: socket.socket
) -> None:
    def next_state() -> str:
        while (message := manager.recv(100)) == b"WATCHDOG=1":
            pass
        return message.decode()

    supervised.start()
    assert next_state() == "READY=1"
    assert supervised.start("--main-process", "--replace") == 0
    states = [next_state() for _ in range(3)]
    main = supervised.status()["supervisor_pid"]
    # Without READY=1 at the end, systemd would end the unit because of STOPPING=1.
    assert states == [f"MAINPID={main}", "STOPPING=1", "READY=1"]
    assert not platform_control.is_detached(main)


def test_down_ends_the_jobs_first_and_then_everything(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    status = supervised.status()
    steps: list[str] = []
    assert platform_control.stop_platform(
        supervised.data_dir, keep_jobs=False, progress=steps.append
    )
    assert (supervised.data_dir / "drained").read_text() == "x"
    assert not any(alive(process["pid"]) for process in status["processes"])
    assert steps == ["Ending the platform.", "Ending sessions and jobs.", "The platform has ended."]
    assert not platform_control.stop_platform(supervised.data_dir, keep_jobs=False)
    assert (supervised.data_dir / "drained").read_text() == "x"


def test_jobs_can_be_kept_and_ended_later(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    assert platform_control.stop_platform(supervised.data_dir, keep_jobs=True)
    assert not (supervised.data_dir / "drained").exists()
    assert platform_control.stop_platform(supervised.data_dir, keep_jobs=False)
    assert (supervised.data_dir / "drained").read_text() == "x"
    assert not platform_control.stop_platform(supervised.data_dir, keep_jobs=False)


def test_sigterm_keeps_the_jobs(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    pid = supervised.status()["supervisor_pid"]
    os.kill(pid, signal.SIGTERM)
    eventually("it is gone", lambda: not alive(pid))
    assert not (supervised.data_dir / "drained").exists()


def test_a_child_that_does_not_go_is_killed(
    supervised: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervised.drain = [sys.executable, "-c", SLEEPER]
    supervised.start()
    supervised.until_ready()
    status = supervised.status()
    for process in status["processes"]:
        os.kill(process["pid"], signal.SIGSTOP)
    talk = platform_control._send_request(supervised.data_dir, {"verb": "down", "keep_jobs": False})
    assert next(talk)["progress"] == "Ending the platform."
    assert list(platform_control._send_request(supervised.data_dir, {"verb": "hurry"})) == [
        {"done": True}
    ]
    assert list(talk)[-1] == {"done": True}
    assert not any(alive(process["pid"]) for process in status["processes"])


def test_a_start_that_fails_says_why(supervised: Supervised) -> None:
    supervised.init = [sys.executable, "-c", "raise SystemExit('The database is damaged.')"]
    supervised.start()
    failure = supervised.data_dir / "run" / "failure"
    assert eventually("it says why", lambda: failure.exists() and failure.read_text()).strip() == (
        "The database is damaged."
    )
    eventually("it is gone", lambda: platform_control.get_status(supervised.data_dir) is None)


def test_supervisor_is_detached_from_its_caller(supervised: Supervised, tmp_path: Path) -> None:
    supervised.start()
    supervised.until_ready()
    status = supervised.status()
    for pid in [status["supervisor_pid"], *(process["pid"] for process in status["processes"])]:
        for descriptor in ("0", "1", "2"):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            assert target == "/dev/null" or target.startswith(str(supervised.data_dir / "logs"))
        assert os.getsid(pid) != os.getsid(0)
    sessions = [os.getsid(process["pid"]) for process in status["processes"]]
    assert all(one != other for one, other in pairwise(sorted(sessions)))


def test_nonsense_on_the_socket_harms_nobody(supervised: Supervised) -> None:
    supervised.start()
    supervised.until_ready()
    for nonsense in ({"verb": "dance"}, ["not", "an", "object"], "x" * 100_000):
        for answer in platform_control._send_request(supervised.data_dir, nonsense):  # type: ignore[arg-type]
            assert answer["error"].startswith("verb is one of status, ")
    assert supervised.status()["state"] == "ready"
