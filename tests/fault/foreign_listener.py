"""Starts of jobs on a machine where another account listens on their ports, and how many connect to it.

    # .venv/bin/python -m tests.fault.foreign_listener --starts 1000

It needs root, and runs in a network namespace of its own. Processes of another account listen on the ports
that a formula over the job's number gives, and on half of the ports that the kernel shows as bound and not
listening, with SO_REUSEADDR, SO_REUSEPORT and both: as soon as the kernel permits it, or with ``--delay``
after a random time of so many seconds at most. A start has two ranks: rank 0 listens on
MASTER_PORT after a random time as the import of a library takes, rank 1 connects to it after another one and
tries again after ``--retry`` seconds; torch waits one second. ``--way`` is the program that starts them:
``aitne-run``, or the agent of a job whose own commands start them.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import fcntl
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

OTHER_UID = 54_321
_NEW_NETWORK = 0x4000_0000
_BOUND, _REUSEADDR, _REUSEPORT = 13, socket.SO_REUSEADDR, socket.SO_REUSEPORT
VARIANTS = ((_REUSEADDR,), (_REUSEPORT,), (_REUSEADDR, _REUSEPORT))
_HEADER, _PORT = struct.Struct("=IHHII"), struct.Struct("!H")
_HELD_S = 0.2
RANK = """
import os, random, socket, sys, time
port, retry_s = int(os.environ["MASTER_PORT"]), float(os.environ["RETRY_S"])
time.sleep(random.random() * float(os.environ["IMPORT_S"]))
if os.environ["RANK"] == "0":
    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        server.accept()[0].sendall(b"rank 0")
else:
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as rank_0:
                sys.exit(rank_0.recv(100) != b"rank 0")
        except OSError:
            time.sleep(retry_s)
"""


@dataclasses.dataclass
class Counts:
    """Outcomes of the starts, and counts of what the other account did."""

    starts: int = 0
    completed: int = 0
    refused: int = 0
    """Starts that ended with a message which names the other account."""
    restarted: int = 0
    """Starts whose ranks were started once more, because their port was in use."""
    otherwise: int = 0
    """Starts that ended for another reason."""
    listened: int = 0
    """Times that the other account has listened on a port that was bound by somebody else."""
    connected: int = 0
    """Connections to the other account."""


def predicted_port(job: int) -> int:
    """Return the port that the number of a job gave before it was chosen at random."""
    return 20_000 + job % 12_000


def bound_ports() -> set[int]:
    """Return the ports that sockets of this machine are bound to which neither listen nor are connected; the
    kernel shows them to every user."""
    found = set()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            request = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << _BOUND)
            request += bytes(40) + b"\xff" * 8
            kernel.send(_HEADER.pack(_HEADER.size + len(request), 20, 0x301, 1, 0) + request)
            done = False
            while not done:
                answer, at = kernel.recv(1 << 16), 0
                while at < len(answer):
                    length, kind, *_ = _HEADER.unpack_from(answer, at)
                    if kind in (2, 3):
                        done = True
                        break
                    found.add(_PORT.unpack_from(answer, at + _HEADER.size + 4)[0])
                    at += (length + 3) & ~3
    return found


def _listening(port: int, options: tuple[int, ...]) -> socket.socket | None:
    family = random.choice((socket.AF_INET, socket.AF_INET6))
    listener = socket.socket(family)
    try:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen()
    except OSError:
        listener.close()
        return None
    listener.setblocking(False)
    return listener


def _answer(listener: socket.socket) -> bool:
    """Answer as rank 0 if there is a connection; return whether there was one."""
    try:
        connection, _ = listener.accept()
    except OSError:
        return False
    with connection:
        connection.sendall(b"foreign")
    return True


def _listen_on_predicted(jobs: range, results: int) -> None:
    listeners = [_listening(predicted_port(job), (_REUSEADDR, _REUSEPORT)) for job in jobs]
    for listener in itertools.cycle(each for each in listeners if each is not None):
        if _answer(listener):
            os.write(results, b"c")
        time.sleep(0.0005)


def _plan(delay_s: float) -> float:
    """Return after how many seconds a port is to be taken; infinity: it is left alone."""
    return random.choice((random.random() * delay_s, float("inf")))


def _listen_on_bound(options: tuple[int, ...], delay_s: float, results: int) -> None:
    planned: dict[int, float] = {}
    held: list[tuple[float, socket.socket]] = []
    while True:
        now = time.monotonic()
        ports = bound_ports() - {each.getsockname()[1] for _, each in held}
        planned = {port: planned.get(port, now + _plan(delay_s)) for port in ports}
        for port, due in list(planned.items()):
            if now >= due and (listener := _listening(port, options)) is not None:
                os.write(results, b"l")
                held.append((now + _HELD_S, listener))
        for until, listener in list(held):
            if _answer(listener):
                os.write(results, b"c")
            if now > until:
                held.remove((until, listener))
                listener.close()
        time.sleep(0.001)


Attack = Callable[[int], None]


def _start_other_account(attack: Attack, results: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setgroups([])
        os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
        os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
        attack(results)
    finally:
        os._exit(0)


def _enter_own_network() -> None:
    """Move this process to a new network namespace whose loopback interface is up."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", 0x1))  # SIOCSIFFLAGS, IFF_UP


def _command(way: str, folder: Path, job: int) -> list[str]:
    rank = folder / "rank.py"
    rank.write_text(RANK)
    if way == "aitne-run":
        return [
            sys.executable,
            "-m",
            "aitne_train.launcher",
            "-np",
            "2",
            "--",
            sys.executable,
            str(rank),
        ]
    job_dir = folder / str(job)
    job_dir.mkdir()
    ranks = f"RANK=1 {sys.executable} {rank} & one=$!; RANK=0 {sys.executable} {rank}"
    program = f"{ranks} || {{ kill $one; exit 1; }}; wait $one"
    facts = {
        "job_id": "6f9f2c1e-0000-4000-8000-000000000001",
        "attempt": 1,
        "commands": [["bash", "-c", program]],
        "workdir": str(folder),
    }
    (job_dir / "agent.json").write_text(json.dumps(facts))
    return [sys.executable, "-I", "-m", "aitne.agent", str(job_dir)]


def start_jobs(
    starts: int, way: str, *, delay_s: float, retry_s: float, import_s: float
) -> Iterator[Counts]:
    """Start jobs beside the other account; yield the counts after each.

    Args:
        starts: number of jobs.
        way: ``aitne-run`` or ``agent``.
        delay_s: longest time in seconds until the other account takes a port.
        retry_s: seconds after which rank 1 tries to connect again.
        import_s: longest time in seconds before rank 0 listens, and before rank 1 connects.
    """
    counts, first_job = Counts(), random.randrange(1_000_000)
    _enter_own_network()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    jobs = range(first_job, first_job + starts)
    attacks: list[Attack] = [partial(_listen_on_predicted, jobs)]
    attacks += [partial(_listen_on_bound, options, delay_s) for options in VARIANTS]
    others = [_start_other_account(attack, writer) for attack in attacks]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITNE_")}
    environ = {**kept, "RETRY_S": str(retry_s), "IMPORT_S": str(import_s)}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for job in jobs:
                done = subprocess.run(
                    _command(way, Path(folder), job),
                    env={**environ, "SLURM_JOB_ID": str(job)} if way == "agent" else environ,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                counts.starts += 1
                refused = f"uid {OTHER_UID}, another account" in done.stderr
                counts.completed += done.returncode == 0
                counts.refused += refused
                counts.restarted += "are restarted once with another port" in done.stderr
                if done.returncode and not refused:
                    counts.otherwise += 1
                    sys.stderr.write(done.stderr[-600:])
                try:
                    events = os.read(reader, 1 << 16)
                except BlockingIOError:
                    events = b""
                counts.listened += events.count(b"l")
                counts.connected += events.count(b"c")
                yield counts
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(reader)
        os.close(writer)


def main() -> None:
    """Start jobs and print the counts; exit with 1 if one connected to the other account."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=1_000)
    parser.add_argument("--way", choices=("aitne-run", "agent"), default="aitne-run")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--retry", type=float, default=1.0)
    parser.add_argument("--import-time", type=float, default=0.4)
    options = parser.parse_args()
    counts = Counts()
    for counts in start_jobs(
        options.starts,
        options.way,
        delay_s=options.delay,
        retry_s=options.retry,
        import_s=options.import_time,
    ):
        if counts.starts % 100 == 0:
            sys.stdout.write(f"{json.dumps(dataclasses.asdict(counts))}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{json.dumps(dataclasses.asdict(counts))}\n")
    sys.exit(counts.connected > 0)


if __name__ == "__main__":
    main()
