"""Record what Slurm's commands answer, for tests/assets/slurm/<release>/cli.

    python scripts/record_slurm.py --cluster dev

The cluster is one of ``aitne dev cluster up`` with nothing else to do. Jobs are submitted as its first
user; host names and paths of the machine are left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "backend"))

from aitne.adapters.schedulers._slurm import job_comment, sacct_parser, squeue_parser, times
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.local_system.dev_cluster_records import find_dev_cluster

ASSETS = Path(__file__).resolve().parent.parent / "tests" / "assets" / "slurm"
MARK = "\x1e0123456789abcdef"
PATIENCE_S = 60.0
JOBS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # name, options, script
    ("completed", (), "true"),
    ("failed", (), "exit 7"),
    ("killed", (), "kill -SEGV $$"),
    ("array", ("--array=0-3%1",), 'test "$SLURM_ARRAY_TASK_ID" = 0 || sleep 600'),
    ("running", ("--nodes=2", "--gres=gpu:1"), "sleep 600"),
    ("held", ("--hold",), "true"),
    ("cancelled", ("--hold",), "true"),
)
REFUSED: dict[str, tuple[str, ...]] = {
    "account": ("--account=nope",),
    "array": ("--array=0-20000",),
    "constraint": ("--constraint=nope",),
    "cpu": ("--cpus-per-task=999",),
    "dependency": ("--dependency=afterok:99999999",),
    "gpu": ("--gres=gpu:99",),
    "gres": ("--gres=nope:1",),
    "memory": ("--mem=999T",),
    "nodes": ("--nodes=999",),
    "option": ("--nope",),
    "partition": ("--partition=nope",),
    "qos": ("--qos=nope",),
    "reservation": ("--reservation=nope",),
    "signal": ("--signal=B:NOPE@10",),
    "time": ("--partition=debug", "--time=1-00:00:00"),
}


def job_id(number: int) -> UUID:
    """Return the UUID of the job with this number in ``JOBS``."""
    return UUID(f"00000000-0000-4000-8000-{number:012}")


class Recorder:
    """Asks one cluster and writes down what it says."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self._folder = ASSETS / ".".join(cluster.slurm_release.split(".")[:2]) / "cli"
        self._folder.mkdir(parents=True, exist_ok=True)

    def run(self, user: str, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command as a user, in the cluster's namespaces."""
        who = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
        return subprocess.run(
            [*self._cluster.command_prefix, *who, *argv],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            cwd="/",
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                **self._cluster.environment,
                **times.ENVIRONMENT,
            },
        )

    def record(self) -> None:
        """Submit, ask, clean up."""
        user = self._cluster.users[0].name
        ids = {}
        for number, (name, options, script) in enumerate(JOBS, 1):
            said = self._submit_job(user, number, *options, script=script)
            ids[name] = said.stdout.strip()
        later = self._submit_job(user, 8, f"--dependency=afterok:{ids['running']}", script="true")
        never = self._submit_job(
            user,
            9,
            f"--dependency=afterok:{ids['failed']}",
            "--kill-on-invalid-dep=yes",
            script="true",
        )
        try:
            self.run(user, "scancel", ids["cancelled"])
            self._wait_for_job_states(user)
            self._record_answers()
            for name, options in REFUSED.items():
                refused = self._submit_job(user, 10, *options, script="true")
                self._write_output(f"sbatch-{name}", f"{refused.returncode}\n{refused.stderr}")
                if refused.returncode == 0:
                    self.run(user, "scancel", refused.stdout.strip())
            test = self._submit_job(user, 10, "--test-only", "--nodes=2", script="true")
            self._write_output("sbatch-test-only", test.stderr)
        finally:
            for number in (*ids.values(), later.stdout.strip(), never.stdout.strip()):
                self.run(user, "scancel", number)

    def _submit_job(
        self, user: str, number: int, *options: str, script: str
    ) -> subprocess.CompletedProcess[str]:
        name = f"--job-name={job_comment.make_job_name(job_id(number), 1)}"
        comment = f"--comment={job_comment.make_comment(job_id(number), 1)}"
        fixed = ("--parsable", "--chdir=/tmp", "--output=/dev/null", "--mem=100M")
        return self.run(
            user, "sbatch", *fixed, name, comment, *options, stdin=f"#!/bin/bash\n{script}\n"
        )

    def _wait_for_job_states(self, user: str) -> None:
        """Wait for two running and two cancelled jobs in the queue, and four ended ones in accounting."""
        deadline = time.monotonic() + PATIENCE_S
        names = ",".join(job_comment.make_job_name(job_id(number), 1) for number in (1, 2, 3, 4))
        while time.monotonic() < deadline:
            states = self.run(user, "squeue", "-h", "-t", "R,CA", "-o", "%t").stdout.split()
            kept = self.run(user, "sacct", "-nXP", f"--name={names}", "--format=State").stdout
            if sorted(states) == ["CA", "CA", "R", "R"] and len(re.findall("ED", kept)) >= 4:
                return
            time.sleep(0.2)
        raise SystemExit(f"The jobs did not come to rest: {states} run, accounting has {kept!r}.")

    def _record_answers(self) -> None:
        operator, root = self._cluster.operator, "root"
        form = squeue_parser.format_option(squeue_parser.FIELDS, MARK)
        names = ",".join(job_comment.make_job_name(job_id(number), 1) for number in range(1, 10))
        show = ("scontrol", "--details", "--oneliner", "show")
        self.run(root, "scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=its fan is loud")
        questions: dict[str, Sequence[str]] = {
            "squeue": ("squeue", "--noheader", "--array", "--states=all", f"--Format={form}"),
            "sacct": (
                *("sacct", "--allusers", "--allocations", "--duplicates", "--noheader"),
                *("--parsable2", f"--delimiter={squeue_parser.SEPARATOR}", f"--name={names}"),
                f"--format={','.join(sacct_parser.FIELDS)}",
            ),
            "nodes": (*show, "node"),
            "partitions": (*show, "partition"),
            "reservations": (*show, "reservation"),
            "config": ("scontrol", "show", "config"),
            "qos": ("sacctmgr", "-nP", "show", "qos", "format=name,flags"),
        }
        for name, argv in questions.items():
            self._write_output(name, self.run(operator, *argv).stdout)
        self.run(root, "scontrol", "update", "NodeName=n4", "State=RESUME")

    def _write_output(self, name: str, text: str) -> None:
        host = Path("/proc/sys/kernel/hostname").read_text().strip()
        text = text.replace(str(self._cluster.root), "/srv/slurm")
        text = re.sub(rf"\b{re.escape(host)}\b", "portal", text)
        text = re.sub(r"OS=Linux .*? (?=RealMemory=)", "OS=Linux 6.1.0 #1 SMP Debian ", text)
        text = re.sub(r"(?m)^(HashVal|BOOT_TIME|NEXT_JOB_ID|SLURMCTLD).*\n", "", text)
        (self._folder / f"{name}.txt").write_text(text, encoding="utf-8")


def main() -> int:
    """Record the answers of a development cluster; return the exit status."""
    parser = argparse.ArgumentParser(description="Record what Slurm's commands answer.")
    parser.add_argument("--cluster", default="dev", help="the name of a development cluster")
    cluster = find_dev_cluster(parser.parse_args().cluster)
    if cluster is None:
        sys.stderr.write("There is no such cluster: aitne dev cluster up\n")
        return 1
    Recorder(cluster).record()
    return 0


if __name__ == "__main__":
    sys.exit(main())
