"""A real Slurm for the tests: one cluster of each release per pytest process, shared by all that need it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne.local_system.dev_cluster_records import DESCRIPTORS
from aitne_devcluster.cluster import remove_cluster, start_cluster
from aitne_devcluster.plan import HOME, ReleaseName
from aitne_devcluster.processes import wait_until
from tests.support.requirements import lacking

NAME = re.compile(r"test-(\d+)(-\w+)?")
_COMMAND_S = 60.0


def cluster_name(suffix: str = "") -> str:
    """Return a cluster name that is unique to this pytest process."""
    return f"test-{os.getpid()}{f'-{suffix}' if suffix else ''}"


def say(text: str) -> None:
    """Print the progress of package installations to standard error."""
    sys.stderr.write(text + "\n")


def root_or_skip() -> None:
    """Skip the test unless this is root."""
    if os.geteuid() != 0:
        lacking("slurm", "needs root, to start Slurm's daemons: sudo make test")


def remove_orphans() -> None:
    """Take down the clusters of test runs that were killed before they could."""
    folders = {path.name for path in HOME.glob("test-*")}
    for name in folders | {path.stem for path in DESCRIPTORS.glob("test-*.json")}:
        match = NAME.fullmatch(name)
        if match and not Path("/proc", match[1]).exists():
            remove_cluster(name, progress=say)


def run_as(cluster: DevCluster, user: str, *argv: str, stdin: str = "") -> str:
    """Run a command where the cluster's commands are, as one of its users; what it printed.

    Raises ``CalledProcessError``.
    """
    identity = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
    done = subprocess.run(
        [*cluster.command_prefix, *identity, *argv],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        timeout=_COMMAND_S,
        env=cluster.environment
        | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"/home/{user}", "USER": user},
        cwd="/",
    )
    return done.stdout


def sbatch(cluster: DevCluster, user: str, script: str, *words: str) -> str:
    """Submit a batch script from the user's home; the JobID."""
    said = run_as(
        cluster, user, "sbatch", "--parsable", f"--chdir=/home/{user}", *words, stdin=script
    )
    return said.strip().partition(";")[0]


def wait_ended(cluster: DevCluster, job: str, timeout_s: float = 60) -> None:
    """Wait until the queue knows no live task of a job."""

    def has_ended() -> bool:
        return not run_as(cluster, cluster.operator, "squeue", "-h", "-j", job, "-o", "%i").strip()

    assert wait_until(has_ended, timeout_s, poll_s=0.2), f"job {job} lives after {timeout_s} s"


@contextmanager
def job_submit_plugin(cluster: DevCluster, body: str) -> Iterator[None]:
    """Let the cluster ask a plugin in Lua about each job that is submitted; ``body`` is that of
    ``slurm_job_submit(job, partitions, uid)``.
    """
    conf = cluster.slurm_conf
    before, script = conf.read_text(), conf.with_name("job_submit.lua")
    script.write_text(
        f"function slurm_job_submit(job, partitions, uid)\n{body}\nend\n"
        "function slurm_job_modify(job, old, partitions, uid)\nreturn slurm.SUCCESS\nend\n"
        "return slurm.SUCCESS\n"
    )
    script.chmod(0o644)

    def write(text: str) -> None:
        conf.write_text(text)
        run_as(cluster, "root", "scontrol", "reconfigure")

    write(f"{before}JobSubmitPlugins=lua\n")
    try:
        yield
    finally:
        write(before)
        script.unlink()


@pytest.fixture(scope="session")
def slurm_clusters() -> Iterator[Callable[[ReleaseName], DevCluster]]:
    """Ask for a release; its cluster comes up at the first time and lives as long as the tests."""
    found: dict[ReleaseName, DevCluster] = {}

    def cluster(release: ReleaseName) -> DevCluster:
        root_or_skip()
        if release not in found:
            remove_orphans()
            try:
                found[release] = start_cluster(cluster_name(release), release=release, progress=say)
            except SetupError as error:
                pytest.fail(f"no Slurm of release {release}: {error.message}")
        return found[release]

    yield cluster
    for running in found.values():
        remove_cluster(running.name, progress=say)


@pytest.fixture(scope="session")
def slurm_cluster(
    request: pytest.FixtureRequest, slurm_clusters: Callable[[ReleaseName], DevCluster]
) -> DevCluster:
    """The development cluster with this machine's Slurm; with ``@both_releases`` trixie's too."""
    return slurm_clusters(getattr(request, "param", "system"))


both_releases = pytest.mark.parametrize("slurm_cluster", ["system", "trixie"], indirect=True)
"""Run a test on this machine's Slurm and on trixie's."""
