"""Submit jobs at full rate, while processes of the platform hang or are killed with -9 at random.

Slurmctld is killed as well, or the broker with ``--scheduler local-accounts``: the embedded scheduler with jobs as
their users' Unix accounts. A hang is SIGSTOP for 45 s, unless the supervisor replaces the process before.

Every job appends the client's own number and the job's id to one file, so that the file tells what was
lost and what ran twice, whatever the platform believes. The big form, as root:

    python -m tests.fault.storm --jobs 10000 --arrays 100 --kills 50 --hangs 10 --slurmctld-kills 5
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

import httpx

from aitne.core.jobs.states import TERMINAL, JobState
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster import faults
from aitne_devcluster.cluster import remove_cluster, start_cluster
from tests.fault.hangs import PROCESSES, Hangs
from tests.fault.storm_result import Result
from tests.support.own_platform import own_platform
from tests.support.platform import SOFTWARE, RunningPlatform, environments_or_skip, run_platform

VICTIMS = ("api", "controller")
SLURM, LOCAL_ACCOUNTS = "slurm", "local-accounts"
CLIENTS = 8
ARRAY_TASKS = 20
PAGE = 500
RECOVERED_WITHIN_S = 60.0
_LIVE = frozenset(JobState) - TERMINAL


class Storm:
    """One storm on a platform that runs on a cluster, or on this machine with Unix accounts, as the user
    alice, whose jobs run as ``account``.
    """

    def __init__(
        self,
        platform: RunningPlatform,
        cluster: DevCluster | None,
        *,
        account: str = "alice",
        jobs: int,
        arrays: int,
        kills: int,
        hangs: int,
        slurmctld_kills: int,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self.platform = platform
        self.cluster = cluster
        self.result = Result(jobs, arrays, kills + slurmctld_kills, hangs)
        self._random = random.Random(seed)
        self._say = say
        self._token = user_token(platform, "alice")
        self._home = Path(pwd.getpwnam(account).pw_dir)
        self._folder = Path(tempfile.mkdtemp(prefix="storm-", dir=self._home))
        shutil.chown(self._folder, account, account)
        self._ran = self._folder / "ran"
        self._ids: dict[int, str] = {}
        """By number; the tasks of an array have the id of their array."""
        self._todo: SimpleQueue[range] = SimpleQueue()
        sizes = [ARRAY_TASKS] * arrays + [1] * (jobs - ARRAY_TASKS * arrays)
        self._random.shuffle(sizes)
        number = 0
        for size in sizes:
            self._todo.put(range(number, number + size))
            number += size
        self._over = threading.Event()
        victims = VICTIMS if cluster is not None else (*VICTIMS, "broker")
        whose = ["slurmctld"] * slurmctld_kills + [
            self._random.choice(victims) for _ in range(kills)
        ]
        # Progress is twice the jobs: how many were accepted, and how many have run.
        moments = sorted(self._random.uniform(0, 1.9 * jobs) for _ in whose)
        self._random.shuffle(whose)
        self._plan = [*zip(moments, whose, strict=True)]
        self._hangs = Hangs(
            platform,
            hangs,
            last_moment=1.9 * jobs,
            progress=self._moment,
            complete=2 * jobs,
            over=self._over,
            random=self._random,
        )
        self.result.hangs = self._hangs.counts

    def run(self, within_s: float) -> Result:
        """Submit, kill, hang, wait, count."""
        begun = time.monotonic()
        deadline = begun + within_s
        clients = [threading.Thread(target=self._client, daemon=True) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        fault_threads = [
            threading.Thread(target=run, daemon=True) for run in (self._killer, self._hangs.run)
        ]
        for thread in fault_threads:
            thread.start()
        said = begun
        while any(client.is_alive() for client in clients) and time.monotonic() < deadline:
            time.sleep(0.1)
            said = self._progress(said)
        self.result.submit_s = time.monotonic() - begun
        while time.monotonic() < deadline and (
            any(thread.is_alive() for thread in fault_threads) or self._live()
        ):
            time.sleep(0.5)
            said = self._progress(said)
        self._over.set()
        for thread in fault_threads:
            thread.join(60)
        self.result.whole_s = time.monotonic() - begun
        self.result.recovered = self._recovers()
        self._count()
        shutil.rmtree(self._folder)
        if self.result.ok:
            for job_id in {*self._ids.values()}:
                shutil.rmtree(self._home / ".aitne" / "jobs" / job_id)
        return self.result

    # --- clients ---------------------------------------------------------------------------------

    def _client(self) -> None:
        with httpx.Client(trust_env=False, timeout=30) as line:
            while True:
                try:
                    numbers = self._todo.get_nowait()
                except Empty:
                    return
                self._ids |= dict.fromkeys(numbers, self._create(line, numbers))

    def _create(self, line: httpx.Client, numbers: range) -> str:
        """Submit a job, or an array for several numbers, with a key, again until there is an answer."""
        number = f"$(({numbers[0]} + ${{SLURM_ARRAY_TASK_ID:-0}}))"
        body = {
            "name": f"{self._folder.name} {numbers[0]}",
            "commands": [f'echo "{number} $AITNE_JOB_ID" >> {self._ran}'],
            "resources": {"cpu": 1, "memory": "32M"},
            "max_duration": "10m",
            **({"array": f"0-{len(numbers) - 1}"} if len(numbers) > 1 else {}),
        }
        key = f"{self._folder.name}-{numbers[0]}"
        while not self._over.is_set():
            try:
                answer = line.post(
                    f"{self.platform.url}/api/v1/jobs",
                    json=body,
                    headers={"Authorization": f"Bearer {self._token}", "Idempotency-Key": key},
                )
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code in (200, 201):
                return str(answer.json()["id"])
            if answer is not None and answer.status_code not in (429, 500, 502, 503, 504):
                raise AssertionError(f"job {numbers[0]}: {answer.status_code} {answer.text}")
            self.result.retried_requests += 1
            time.sleep(0.1)
        return ""

    # --- the killer ------------------------------------------------------------------------------

    def _killer(self) -> None:
        for moment, victim in self._plan:
            while self._moment() < moment:
                if self._over.wait(0.02):
                    return
            if victim == "slurmctld":
                self._kill_slurmctld()
            else:
                self._kill(victim)

    def _kill(self, name: str) -> None:
        """Kill a process once, and count it only if it ran."""
        while not self._over.is_set():
            pid = self.platform.pids().get(name)
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.result.kills[name] += 1
                return
            time.sleep(0.05)

    def _kill_slurmctld(self) -> None:
        assert self.cluster is not None, "there is no slurmctld"
        pid = faults.pid_of(self.cluster, "slurmctld")
        assert pid is not None, "slurmctld does not run"
        os.kill(pid, signal.SIGKILL)
        self.result.kills["slurmctld"] += 1
        time.sleep(self._random.uniform(0.2, 3))
        faults.restart_daemon(self.cluster, "slurmctld")

    def _resume_nodes(self) -> None:
        """Resume the nodes that Slurm drained because slurmctld used a job id twice."""
        if self.cluster is None:
            return
        sinfo = ("sinfo", "-h", "-N", "-o", "%N|%T|%E")
        for line in self._slurm(self.cluster, *sinfo).splitlines():
            node, state, reason = line.split("|")
            if reason == "Duplicate jobid" and state.startswith("drain"):
                self._slurm(self.cluster, "scontrol", "update", f"nodename={node}", "state=resume")
                self.result.resumed += 1

    def _slurm(self, cluster: DevCluster, *argv: str) -> str:
        done = subprocess.run(
            [*cluster.command_prefix, *argv],
            env=dict(os.environ) | cluster.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout

    def _recovers(self) -> bool:
        """Return True once the platform is ready with all its processes, False after a minute."""
        deadline = time.monotonic() + RECOVERED_WITHIN_S
        while time.monotonic() < deadline:
            if self.platform.ready() and set(PROCESSES) <= self.platform.pids().keys():
                return True
            time.sleep(0.5)
        return False

    # --- counting --------------------------------------------------------------------------------

    def _moment(self) -> int:
        return len(self._ids) + self._lines()

    def _lines(self) -> int:
        try:
            return self._ran.read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def _live(self) -> int | None:
        """Return the number of jobs that have not ended; the number of all jobs while the API is down."""
        try:
            headers = {"Authorization": f"Bearer {self.platform.token}"}
            url = f"{self.platform.url}/metrics"
            answer = httpx.get(url, headers=headers, trust_env=False, timeout=30)
            text = answer.raise_for_status().text
        except httpx.HTTPError:
            return self.result.jobs
        counts = dict(re.findall(r'^aitne_jobs\{state="(\w+)"\} ([0-9.]+)', text, re.MULTILINE))
        return int(sum(float(counts.get(state.value, 0)) for state in _LIVE))

    def _progress(self, said: float) -> float:
        now = time.monotonic()
        if now - said < 5:
            return said
        if self.result.kills["slurmctld"]:
            self._resume_nodes()
        self._say(
            f"accepted {len(self._ids)}, run {self._lines()}, live {self._live()}, "
            f"kills {dict(self.result.kills)}, hangs {dict(self.result.hangs.processes)}"
        )
        return now

    def _count(self) -> None:
        ran: dict[int, list[str]] = {}
        for line in self._ran.read_text().splitlines():
            number, job_id = line.split()
            ran.setdefault(int(number), []).append(job_id)
        for number in range(self.result.jobs):
            runs = ran.pop(number, [])
            if not runs:
                self.result.lost.append(number)
            elif len(runs) > 1:
                self.result.twice.append(number)
            elif runs != [self._ids.get(number)]:
                self.result.strange.append(f"{number}: {runs[0]} is not {self._ids.get(number)}")
        self.result.strange += [f"{number}: {runs}" for number, runs in ran.items()]
        with httpx.Client(trust_env=False, timeout=60) as line:
            try:
                jobs = all_jobs(line, self.platform, self._token)
            except httpx.HTTPError as error:
                self._say(f"the platform does not list its jobs: {error}")
                return
        for job in jobs:
            if not str(job["name"]).startswith(f"{self._folder.name} "):
                continue  # the platform has run other jobs before
            if job["array"] is not None and job["array_task_id"] is None:
                continue  # its tasks are counted
            self.result.states[job["state"]] += 1
            self.result.attempts[job["attempt"]] += 1
            if job["state"] != JobState.COMPLETED:
                self._say(f"{job['id']} {job['state']} {job['reason']}: {job['message']}")


def all_jobs(line: httpx.Client, platform: RunningPlatform, token: str) -> list[dict[str, object]]:
    """Return every job that the token's user may see."""
    found: list[dict[str, object]] = []
    cursor: str | None = None
    while True:
        answer = line.get(
            f"{platform.url}/api/v1/jobs",
            params={"limit": PAGE, **({} if cursor is None else {"cursor": cursor})},
            headers={"Authorization": f"Bearer {token}"},
        )
        answer.raise_for_status()
        page = answer.json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def user_token(platform: RunningPlatform, user: str) -> str:
    """Create a personal access token for a portal account, as the administrator."""
    done = platform.aitne("admin", "token", "create", "--user", user, "--name", "storm", "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


_LIMITS = "[limits]\nmax_live_jobs = 1000000\n"


def config(cluster: DevCluster, more: str = "") -> str:
    """Return the ``aitne.toml`` of a platform on the cluster."""
    return (
        f'scheduler = "slurm"\npoll_interval_s = 1.0\n{more}\n{_LIMITS}'
        f'[slurm]\ndev_cluster = "{cluster.name}"\nsoftware_dir = "{SOFTWARE}"\n'
    )


@contextmanager
def on_slurm(
    say: Callable[[str], None],
) -> Iterator[tuple[RunningPlatform, DevCluster | None, str]]:
    """Run a platform on a development cluster; both are stopped in the end.

    Yield alice's account too.
    """
    name = f"storm-{os.getpid()}"
    cluster = start_cluster(name, progress=say)
    root = Path(tempfile.mkdtemp(prefix="aitne-storm-"))
    root.chmod(0o755)
    try:
        with run_platform(RunningPlatform(root, config(cluster))) as platform:
            yield platform, cluster, "alice"
    finally:
        remove_cluster(name, progress=say)
        shutil.rmtree(root)


@contextmanager
def on_accounts(
    say: Callable[[str], None],
) -> Iterator[tuple[RunningPlatform, DevCluster | None, str]]:
    """Run a platform whose jobs run on this machine as Unix accounts; yield alice's account too."""
    with own_platform(config=_LIMITS) as platform:
        say(f"jobs run as {platform.accounts['alice']}")
        platform.aitne("admin", "user", "create", "alice")
        yield platform, None, platform.accounts["alice"]


def main() -> int:
    """Run the large test from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.storm", description=__doc__)
    parser.add_argument("--scheduler", choices=(SLURM, LOCAL_ACCOUNTS), default=SLURM)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--arrays", type=int, default=0, help=f"of {ARRAY_TASKS} of the jobs each")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--hangs", type=int, default=0)
    parser.add_argument("--slurmctld-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--within", type=float, default=3_600, help="seconds")
    given = parser.parse_args()
    if given.scheduler != SLURM and given.slurmctld_kills:
        parser.error("--slurmctld-kills needs --scheduler slurm")

    def say(text: str) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stdout.flush()

    environments_or_skip()
    prepared = on_slurm if given.scheduler == SLURM else on_accounts
    with prepared(say) as (platform, cluster, account):
        say(f"seed {given.seed}")
        storm = Storm(
            platform,
            cluster,
            account=account,
            jobs=given.jobs,
            arrays=given.arrays,
            kills=given.kills,
            hangs=given.hangs,
            slurmctld_kills=given.slurmctld_kills,
            seed=given.seed,
            say=say,
        )
        result = storm.run(given.within)
        say(result.summary())
        if not result.ok:
            say(platform.logs())
        return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
