"""Run every batch script of a folder by sbatch and on the platform, and print what differs.

``python -m tests.support.compare_sbatch DIR`` starts a development cluster and a platform of their own. The
exit status is 0 if no script runs differently without a note or a refusal, 1 otherwise, 2 for a wrong
call. A script's options and arguments are in a comment ``# Call: sbatch ...``; see ``scripts.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.platform.dev_cluster_record import DevCluster
from aitne_devcluster.cluster import remove_cluster, start_cluster
from aitne_devcluster.plan import ReleaseName
from tests.support.compare_sbatch.comparison import Row, compare
from tests.support.compare_sbatch.report import document, succeeded, table
from tests.support.compare_sbatch.scripts import BatchScript, read_scripts
from tests.support.platform import RunningPlatform, on_cluster, run_platform
from tests.support.slurm import cluster_name, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the scripts of a folder; the exit status."""
    parser = argparse.ArgumentParser("compare_sbatch", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument(
        "--release",
        choices=("system", "trixie", "sid"),
        default="system",
        help="Slurm of this machine, or of a release of Debian",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    scripts = read_scripts(options.folder)
    if not scripts:
        parser.error(f"{options.folder} has no batch scripts")
    try:
        rows = _compare(scripts, options.release)
    except SetupError as error:
        parser.error(error.message)
    text = json.dumps(document(rows), indent=2) if options.json else table(rows)
    sys.stdout.write(f"{text}\n")
    return 0 if succeeded(rows) else 1


def _compare(scripts: Sequence[BatchScript], release: ReleaseName) -> list[Row]:
    name = cluster_name("scripts")
    try:
        # Standard output has the comparison alone.
        with redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as root:
            cluster = start_cluster(name, release=release, progress=say)
            with run_platform(_platform(Path(root), cluster, release)) as platform:
                return compare(scripts, cluster, platform)
    finally:
        remove_cluster(name, progress=say)


def _platform(root: Path, cluster: DevCluster, release: ReleaseName) -> RunningPlatform:
    """Return a platform on the cluster that is not started yet; nodes with a root file system of their
    own have software of their own, without an environment for sessions.
    """
    if release == "system":
        return on_cluster(root, cluster)
    platform = on_cluster(root, cluster, software=cluster.software_dir)
    python = cluster.software_dir / "no-environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(cluster.python)
    platform.env["AITNE_SESSION_ENV"] = str(python.parents[1])
    return platform


if __name__ == "__main__":
    sys.exit(main())
