"""Checks of the nodes: software, GPUs and containers of this machine, and what jobs see on each node."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable

from aitne.adapters.node_software_folder import SoftwareFolder
from aitne.core.errors import SetupError
from aitne.core.models.cluster import Node
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.doctor.node_probe import count_gpus
from aitne.operations.doctor.node_test_jobs import NodeReport, examine_nodes
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.supervisor.environment_integrity import list_changed_packages
from aitne.supervisor.node_software_installation import MARKER
from aitne.supervisor.plan_creation import get_session_env_dir
from aitne.supervisor.software_environments import LOCKS, repair_command

SLURMD_PORT = 6_818
MOST_SKEW_S = 5.0
_WITHIN_S = 3.0
_NO_USER = "No job was submitted: pass --job-as USER."


@check("node-software", Subject.NODES, "The software for nodes has the installed release.")
def node_software(host: CheckedHost) -> Finding:
    """Check the agent, the launcher and the session environment in the shared folder."""
    if host.settings.slurm.software_dir is None:
        if host.has_slurm:
            return make_failed_finding(
                "slurm.software_dir is not set, so nodes have no agent.",
                "Set it to a folder that all nodes share, and run `aitne admin software`.",
            )
        return make_skipped_finding("Jobs use the installation on this machine.")
    folder = SoftwareFolder(host.settings)
    try:
        folder.check_owner()
    except SetupError as error:
        return make_failed_finding(
            error.message, "Correct the permissions; root should own the folder."
        )
    if not folder.has_files():
        return make_failed_finding(
            f"{folder.root} does not have the software of this release.",
            "Run `aitne admin software` as the account that owns the folder.",
        )
    if not (folder.session_env / "bin" / "python").exists():
        return make_warning_finding(
            f"{folder.root} does not have the environment for sessions of this release.",
            "Run `aitne admin software` as the account that owns the folder, or start the platform.",
        )
    return make_ok_finding(f"{folder.root} has the software of this release.")


@check("session-packages", Subject.NODES, "The environment of sessions is as it was installed.")
def session_packages(host: CheckedHost) -> Finding:
    """Compare the environment with its lock file: jobs of the account that owns it can change it."""
    folder = get_session_env_dir(host.settings)
    if os.environ.get("AITNE_SESSION_ENV"):
        return make_skipped_finding(
            f"AITNE_SESSION_ENV names {folder}, which the platform does not install."
        )
    if not (folder / MARKER).is_file():
        return make_skipped_finding(
            f"{folder} does not exist for this account; the next start creates it."
        )
    lines = list_changed_packages(folder, LOCKS / "session.txt", files=True)
    if not lines:
        return make_ok_finding(f"The packages in {folder} are as they were installed.")
    own = "`python3 -m venv FOLDER`, and `environment.venv` in the job file"
    return make_failed_finding(
        f"Packages of the environment of sessions in {folder} were changed, so sessions may fail: "
        f"{', '.join(lines)}.",
        f"Install them again: `{repair_command(folder, lines)}`. Users' packages belong in an "
        f"environment of the user: {own}.",
    )


@check("gpus", Subject.NODES, "The GPUs of this machine are the ones that the scheduler offers.")
def check_local_gpus(host: CheckedHost) -> Finding:
    """Compare NVML with the setting, where jobs run on this machine."""
    if host.has_slurm:
        return make_skipped_finding(
            "Jobs run on other machines: pass --job-as USER for the check node-gpus."
        )
    setting = host.settings.local.gpus
    count = count_gpus()
    if setting == "none":
        return make_skipped_finding("local.gpus is none.")
    if isinstance(count, str):
        if setting == "auto":
            return make_skipped_finding(
                f"This machine has no NVIDIA GPU that NVML can see: {count}."
            )
        return make_warning_finding(
            f"local.gpus declares {setting}, but NVML sees none: {count}.",
            "Install the driver, or set local.gpus to auto.",
        )
    return make_ok_finding(f"NVML sees {count} GPUs.")


@check("apptainer", Subject.NODES, "Apptainer runs on this machine.")
def check_local_apptainer(host: CheckedHost) -> Finding:
    """Check the program of Apptainer, which jobs with an image need."""
    program = host.settings.containers.apptainer
    if shutil.which(program) is None:
        if host.has_slurm:
            return make_skipped_finding(
                f"{program} is not on this machine; the check node-apptainer looks at nodes."
            )
        return make_skipped_finding(
            f"{program} is not installed, so jobs with an image need Docker."
        )
    completed = subprocess.run(
        [program, "--version"], capture_output=True, text=True, timeout=_WITHIN_S, check=False
    )
    if completed.returncode:
        return make_failed_finding(
            f"{program} does not run: {completed.stderr.strip()[:300]}",
            "Install it again: docs/howto/images.md.",
        )
    return make_ok_finding(f"{completed.stdout.strip()} is installed.")


@check("node-addresses", Subject.NODES, "This machine reaches every node.")
async def node_addresses(host: CheckedHost) -> Finding:
    """Check that each usable node has an address, and that a connection to its slurmd is answered."""
    if not host.has_slurm:
        return make_skipped_finding("Jobs run on this machine.")
    nodes = [node for node in (await host.cluster()).nodes if node.state.is_usable]
    if not nodes:
        return make_unknown_finding("The scheduler has not reported a usable node.")
    results = await asyncio.gather(*(_find_connection_problem(node) for node in nodes))
    missed = [text for text in results if text is not None]
    if missed:
        return make_failed_finding(
            f"This machine does not reach {len(missed)} of {len(nodes)} nodes. {'; '.join(missed[:5])}.",
            "Check DNS or NodeAddr, and let the portal's machine connect to the nodes' ports above "
            "1023: sessions need that.",
        )
    return make_ok_finding(f"{len(nodes)} nodes answer at their addresses.")


async def _find_connection_problem(node: Node) -> str | None:
    """Return why a node cannot be reached; None if it answers, also with a refusal."""
    try:
        async with asyncio.timeout(_WITHIN_S):
            _, writer = await asyncio.open_connection(node.address or node.name, SLURMD_PORT)
            writer.close()
    except ConnectionRefusedError:
        return None  # the machine answers; its slurmd has another port
    except TimeoutError:
        return f"{node.name}: no answer within {_WITHIN_S:g} s"
    except OSError as error:
        return f"{node.name}: {error.strerror or error}"
    return None


@check("test-job", Subject.NODES, "A job of the given user runs on each node.", needs_platform=True)
async def test_job(host: CheckedHost) -> Finding:
    """Submit a job to each node as the given user, and follow its log."""
    if host.job_user is None:
        return make_skipped_finding(_NO_USER)
    reports = await examine_nodes(host)
    wrong = [f"{report.node}: {report.problem}" for report in reports if report.problem]
    if not wrong:
        return make_ok_finding(
            f"A job of {host.job_user} ran on {', '.join(r.node for r in reports)}."
        )
    some = any(report.seen is not None for report in reports)
    return (make_warning_finding if some else make_failed_finding)(
        f"The job of {host.job_user} did not run on {len(wrong)} of {len(reports)} nodes. "
        f"{'; '.join(wrong[:5])}.",
        "The message of the job says why; for a full queue, try again later.",
    )


@check(
    "node-folder",
    Subject.NODES,
    "Nodes and this machine share the job folders; `link` is atomic.",
    needs_platform=True,
)
async def node_folder(host: CheckedHost) -> Finding:
    """Check the folder of the test jobs: written here and read there, its log the other way."""

    def problem(report: NodeReport) -> str | None:
        link = report.fact("link")
        return None if link == "atomic" else f"link: {link}"

    return await _check_each_report(
        host,
        problem,
        "read the job's folder, and `link` is atomic there",
        "Put slurm.jobs_dir on a file system that all nodes mount with working hard links.",
    )


@check(
    "node-clock",
    Subject.NODES,
    "The clocks of the nodes agree with the portal's.",
    needs_platform=True,
)
async def node_clock(host: CheckedHost) -> Finding:
    """Compare the clock of each node with the time that the portal sent it."""

    def problem(report: NodeReport) -> str | None:
        skew = report.fact("skew_s")
        if not isinstance(skew, int | float):
            return "the portal did not answer there"
        return None if abs(skew) <= MOST_SKEW_S else f"{skew:+.0f} s"

    return await _check_each_report(
        host,
        problem,
        "have the portal's time",
        "Run chrony on these nodes, with the site's servers.",
    )


@check(
    "node-portal",
    Subject.NODES,
    "Nodes reach the portal and the sessions' origin.",
    needs_platform=True,
)
async def node_portal(host: CheckedHost) -> Finding:
    """Check the connections from each node to the portal."""

    def problem(report: NodeReport) -> str | None:
        wrong = report.fact("unreachable")
        return None if wrong == [] else f"{wrong}"

    return await _check_each_report(
        host,
        problem,
        "reach the portal and the sessions' origin",
        "Correct slurm.portal_address and slurm.sessions_address, DNS on the nodes, or the firewall.",
    )


@check(
    "portal-node",
    Subject.NODES,
    "This machine reaches the ports of jobs on nodes.",
    needs_platform=True,
)
async def portal_node(host: CheckedHost) -> Finding:
    """Check a connection from here to a port on which the test job listens, as a session does."""

    def problem(report: NodeReport) -> str | None:
        return None if report.connected else report.not_connected or "no connection"

    return await _check_each_report(
        host,
        problem,
        "accept connections to the ports of jobs",
        "Let the portal's machine connect to the nodes' ports above 1023; with several networks set "
        "slurm.agent_host.",
    )


@check(
    "node-gpus",
    Subject.NODES,
    "NVML sees the GPUs that the scheduler offers on each node.",
    needs_platform=True,
)
async def node_gpus(host: CheckedHost) -> Finding:
    """Compare the number of GPUs that NVML sees on each node with the scheduler's."""
    expected = {
        node.name: sum(gpu.total for gpu in node.gpus) for node in (await host.cluster()).nodes
    }
    if not any(expected.values()):
        return make_skipped_finding("The scheduler offers no GPU.")

    def problem(report: NodeReport) -> str | None:
        count, wanted = report.fact("gpus"), expected.get(report.node, 0)
        if isinstance(count, str):
            return None if wanted == 0 else f"{wanted} in the scheduler; NVML: {count}"
        return None if count == wanted else f"{wanted} in the scheduler, {count} in NVML"

    return await _check_each_report(
        host,
        problem,
        "have the GPUs that the scheduler offers",
        "Check `nvidia-smi` and the driver there, and gres.conf (AutoDetect=nvml).",
    )


@check("node-apptainer", Subject.NODES, "Apptainer runs on each node.", needs_platform=True)
async def node_apptainer(host: CheckedHost) -> Finding:
    """Check the program of Apptainer on each node."""

    def problem(report: NodeReport) -> str | None:
        version = report.fact("apptainer")
        return None if isinstance(version, str) and version else "not installed"

    return await _check_each_report(
        host,
        problem,
        "have Apptainer",
        "Install the package apptainer there (docs/howto/images.md); jobs with an image fail until then.",
        serious=False,
    )


async def _check_each_report(
    host: CheckedHost,
    problem: Callable[[NodeReport], str | None],
    good: str,
    remedy: str,
    *,
    serious: bool = True,
) -> Finding:
    """Return the finding about what the test jobs have seen on the nodes."""
    if host.job_user is None:
        return make_skipped_finding(_NO_USER)
    reports = [report for report in await examine_nodes(host) if report.seen is not None]
    if not reports:
        return make_unknown_finding(
            "No test job ran, so no node was seen.", "See the check `test-job`."
        )
    wrong = [
        f"{report.node}: {text}" for report in reports if (text := problem(report)) is not None
    ]
    if wrong:
        return (make_failed_finding if serious else make_warning_finding)(
            f"{len(wrong)} of {len(reports)} nodes: {'; '.join(wrong[:5])}.", remedy
        )
    return make_ok_finding(f"{len(reports)} nodes {good}.")
