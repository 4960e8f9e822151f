"""Checks of the platform's processes."""

from __future__ import annotations

import json
import time
from pathlib import Path

from aitne import __version__
from aitne.local_system import hung_restart_records
from aitne.operations.doctor import web_requests
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.supervisor.platform_control import TRIES
from aitne.supervisor.supervisor_plan import FAILURE, plan_dir

RECENT_S = 7 * 86_400.0
EXPECTED = ("api", "controller", "hub", "proxy")


@check("processes", Subject.PROCESSES, "The supervisor runs, and all its processes answer.")
def check_processes(host: CheckedHost) -> Finding:
    """Check the processes that the supervisor reports."""
    data_dir = host.settings.data_dir
    if host.status is None:
        return make_failed_finding(
            f"The platform in {data_dir} is not running.",
            "Start it: `systemctl start aitne`, or `aitne up`. Running jobs are found again.",
        )
    by_name = {one["name"]: one for one in host.status["processes"]}
    missing = [name for name in EXPECTED if name not in by_name]
    silent = [name for name, one in by_name.items() if not one.get("answers", True)]
    if missing or silent:
        names = ", ".join([*missing, *silent])
        return make_failed_finding(
            f"These processes do not run or do not answer: {names}.",
            f"The supervisor restarts them. If they do not recover, see {data_dir / 'logs'}.",
        )
    restless = [name for name, one in by_name.items() if one["restarts"] >= TRIES]
    if restless:
        return make_warning_finding(
            f"These processes have been restarted {TRIES} times or more: {', '.join(restless)}.",
            f"Their logs in {data_dir / 'logs'} say why they exit.",
        )
    return make_ok_finding(f"{len(by_name)} processes run and answer.")


@check("start", Subject.PROCESSES, "The last start of the platform did not fail.")
def check_last_start(host: CheckedHost) -> Finding:
    """Check for the reason that the supervisor left when it gave up a start."""
    path = plan_dir(host.settings.data_dir) / FAILURE
    if not path.is_file():
        return make_ok_finding("The supervisor has given up no start.")
    reason = " ".join(path.read_text().split())[:600]
    return make_failed_finding(
        f"The supervisor has given up the last start: {reason}",
        f"Remove the cause, then run `aitne up`; {host.settings.data_dir / 'logs'} has more.",
    )


@check("hung-processes", Subject.PROCESSES, "No process had to be killed because it hung.")
def check_hung_processes(host: CheckedHost) -> Finding:
    """Check how often the supervisor has killed a process that did not answer."""
    counts = hung_restart_records.read_restart_counts(host.settings.run_dir)
    last = max(
        (path.stat().st_mtime for path in (host.settings.run_dir / "hung").glob("*")), default=0.0
    )
    if not counts or time.time() - last > RECENT_S:
        return make_ok_finding("No process of this platform has hung in the last week.")
    listed = ", ".join(f"{name} {count} times" for name, count in sorted(counts.items()))
    return make_warning_finding(
        "In the last week the supervisor has killed a process that did not answer; altogether: "
        f"{listed}.",
        "The audit log has the times (action restart_process). Often the machine lacks memory or its "
        "disk is slow.",
    )


@check(
    "api", Subject.PROCESSES, "The API answers, and submissions are stored.", needs_platform=True
)
def check_api_readiness(host: CheckedHost) -> Finding:
    """Check that the API is ready, with the problem of each part if it is not."""
    token = _metrics_token(host)
    url = f"{host.settings.internal_url}/readyz"
    try:
        response = web_requests.fetch_url(url, token=token)
        document = json.loads(response.body)
        parts = document["parts"]
    except web_requests.NoAnswer as error:
        return make_failed_finding(
            f"The API does not answer: {error}", "See `api.log` in the logs of the platform."
        )
    except (ValueError, KeyError, TypeError):
        return make_failed_finding(
            f"{url} answers, but not as Aitne's API.",
            "Another program has the port: end it, or set another `port`.",
        )
    wrong = [
        f"{name}: {part.get('detail') or 'not ready'}"
        for name, part in parts.items()
        if not part.get("ok")
    ]
    if wrong:
        return make_failed_finding(
            f"The API is not ready. {' '.join(wrong)}", "See the checks of these parts."
        )
    return make_ok_finding("The API is ready.")


@check(
    "release",
    Subject.PROCESSES,
    "The running platform has the installed release.",
    needs_platform=True,
)
def check_running_release(host: CheckedHost) -> Finding:
    """Check whether an update is unfinished: the processes run another release than is installed."""
    try:
        running = json.loads(web_requests.fetch_url(f"{host.settings.internal_url}/readyz").body)[
            "version"
        ]
    except (web_requests.NoAnswer, ValueError, KeyError, TypeError):
        return make_unknown_finding("The API does not tell its release.", "See the check `api`.")
    if running != __version__:
        return make_warning_finding(
            f"The platform runs release {running}, and {__version__} is installed.",
            "Finish the update: restart the platform. Running jobs continue.",
        )
    return make_ok_finding(f"Release {__version__} is installed and runs.")


@check("controller", Subject.PROCESSES, "A controller is active.", needs_platform=True)
async def check_controller_lease(host: CheckedHost) -> Finding:
    """Check the controller's lease, as the health page does."""
    return await host.check_health("controller")


@check("queue", Subject.PROCESSES, "No order waits long for the scheduler.", needs_platform=True)
async def check_outbox(host: CheckedHost) -> Finding:
    """Check the outbox, as the health page does."""
    return await host.check_health("queue")


@check("hub", Subject.PROCESSES, "JupyterHub answers.", needs_platform=True)
async def check_jupyterhub(host: CheckedHost) -> Finding:
    """Check JupyterHub, as the health page does."""
    return await host.check_health("hub")


@check("proxy", Subject.PROCESSES, "The session proxy answers.", needs_platform=True)
async def check_session_proxy(host: CheckedHost) -> Finding:
    """Check the proxy, as the health page does."""
    return await host.check_health("proxy")


def _metrics_token(host: CheckedHost) -> str | None:
    path = Path(host.settings.secrets_dir, "metrics_token")
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
