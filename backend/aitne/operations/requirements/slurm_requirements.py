"""Requirements of the site's Slurm: its release, the level of the platform's account, and slurmrestd."""

from __future__ import annotations

import re

from aitne.adapters.schedulers._slurm.rest.rest_http_client import RestClient
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.core.errors import SchedulerUnavailable
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_unknown_finding,
    make_warning_finding,
)

TESTED = ((22, 5), (24, 11), (26, 5))
OLDEST = (22, 5)
OPERATORS = ("operator", "administrator")
"""Levels (AdminLevel) of accounts that see and change the jobs of all users."""
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_REST_WITHIN_S = 5.0


def check_release(config: SlurmConfig) -> Finding:
    """Compare Slurm's release with those that the platform was tested with."""
    name = config.release
    match = _RELEASE.match(name)
    release = (0, 0) if match is None else (int(match[1]), int(match[2]))
    tested = ", ".join(f"{major}.{minor:02}" for major, minor in TESTED)
    if release < OLDEST:
        return make_failed_finding(
            f"Slurm {name} is older than every release that was tested ({tested}).",
            "Update Slurm.",
        )
    if release not in TESTED:
        return make_warning_finding(
            f"Slurm {name} was not tested; these were: {tested}.",
            "Run `aitne admin accept`, and report what fails.",
        )
    return make_ok_finding(f"Slurm {name} was tested.")


def check_operator(account: str, config: SlurmConfig, level: str | None) -> Finding:
    """Check that ``account``, which polls, sees the jobs of all users.

    ``level`` is its AdminLevel; None: slurmdbd does not tell.
    """
    sees_all = f"{account} sees the jobs of all users"
    hides = "jobs" in config.private
    remedy = (
        f"Run `sacctmgr -i add user {account} account=root adminlevel=operator`, or, if Slurm has the user, "
        f"`sacctmgr -i modify user {account} set adminlevel=operator`."
    )
    if account in ("root", config.slurm_user):
        return make_ok_finding(f"{sees_all}.")
    if level is not None and level.lower() in OPERATORS:
        return make_ok_finding(f"{sees_all}: it is {level} in Slurm.")
    if not hides:
        if level is None:
            return make_ok_finding(f"{sees_all}.")
        return make_warning_finding(
            f"{sees_all}, but is no operator of Slurm, which extends their time limits.", remedy
        )
    hidden = (
        f"Slurm hides jobs of others (PrivateData=jobs), and {account} is not an operator there"
    )
    if not config.accounting:
        return make_failed_finding(
            f"{hidden}: without accounting no account can be one.",
            "Set up slurmdbd, or remove `jobs` from PrivateData in slurm.conf.",
        )
    if level is None:
        return make_unknown_finding(
            "slurmdbd does not tell the level of accounts.",
            f"As root: `sacctmgr show user {account} format=user,adminlevel`.",
        )
    return make_failed_finding(
        f"{hidden}.",
        remedy,
    )


async def check_slurmrestd(url: str) -> Finding:
    """Check that slurmrestd listens; the broker has the key for its requests."""
    client = RestClient(url)
    try:
        response = await client.send_request("GET", "/openapi/v3", {}, timeout_s=_REST_WITHIN_S)
    except SchedulerUnavailable as error:
        return make_warning_finding(
            f"slurmrestd does not answer: {error.message}",
            "Start slurmrestd, or correct slurm.rest_url. The commands are used meanwhile.",
        )
    finally:
        await client.close()
    return make_ok_finding(f"slurmrestd answers at {url} (HTTP {response.status}).")
