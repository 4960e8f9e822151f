"""Inspection of the site's Slurm: its settings, accounting, the operator, slurmrestd, and its nodes."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aitne.adapters.schedulers._slurm.slurm_config import config_values
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.operations.requirements.slurm_conf_settings import REQUIREMENTS, SlurmReport
from aitne.operations.requirements.slurm_requirements import (
    check_operator,
    check_release,
    check_slurmrestd,
)
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.check_results import (
    Answer,
    find_account,
    make_result,
    make_result_of_finding,
    run_command,
)

OK, WARNING, FAILED = CheckState.OK, CheckState.WARNING, CheckState.FAILED
UNKNOWN, SKIPPED = CheckState.UNKNOWN, CheckState.SKIPPED
_NODE_WITHIN_S = 40.0
_MOST_USERS = 1_000


class SlurmSite:
    """The site's Slurm, as its commands describe it to the account that runs the setup."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        conf = answers.slurm.conf
        self._environment = {} if conf is None else {"SLURM_CONF": str(conf)}

    def run_command(self, *argv: str, user: str | None = None, within_s: float = 15.0) -> Answer:
        """Run one of Slurm's commands and return its end."""
        account = None if user is None else find_account(user)
        return run_command(
            [*self._answers.slurm.command_prefix, *argv],
            account=account,
            environment=dict(self._environment),
            within_s=within_s,
        )

    def run_checks(self) -> Iterator[CheckResult]:
        """Yield the results of all checks. Nothing in Slurm is changed."""
        answer = self.run_command("scontrol", "show", "config")
        if not answer.has_succeeded:
            yield make_result(
                "slurm",
                FAILED,
                f"Slurm does not answer: {_last_line(answer)}.",
                "Install Slurm's commands here (Debian: slurm-client) with the slurm.conf and munge key of "
                "the cluster, start slurmctld, or set slurm.conf in the answers.",
            )
            return
        report = SlurmReport.parse(answer.output)
        yield make_result_of_finding("slurm", check_release(report.config), is_blocking=False)
        yield from _check_settings(report)
        yield self._check_nodes()
        yield from self._check_operator(report)
        yield self._check_users()
        yield from self._check_slurmrestd(report)
        yield self._check_shared_folder()

    def _check_nodes(self) -> CheckResult:
        answer = self.run_command("sinfo", "--noheader", "--Node", "--format=%N|%P|%T|%G")
        rows = [line.split("|") for line in answer.output.splitlines() if line.count("|") == 3]
        if not answer.has_succeeded or not rows:
            return make_result(
                "slurm.nodes",
                WARNING,
                f"Slurm shows no nodes: {_last_line(answer)}.",
                "`sinfo` must list nodes for jobs to start.",
            )
        nodes = {row[0] for row in rows}
        away = sorted({row[0] for row in rows if row[2].rstrip("*").startswith(("down", "drain"))})
        partitions = sorted({row[1].rstrip("*") for row in rows})
        gpus = sum("gpu" in row[3] for row in {row[0]: row for row in rows}.values())
        names = ", ".join(partitions[:10])
        message = f"{len(nodes)} nodes, {gpus} of them with GPUs, in partitions {names}."
        if away:
            return make_result(
                "slurm.nodes",
                WARNING,
                f"{message} {len(away)} are down or drained: {', '.join(away[:5])}.",
                "`sinfo -R` shows the reasons.",
            )
        return make_result("slurm.nodes", OK, message)

    def _check_operator(self, report: SlurmReport) -> Iterator[CheckResult]:
        name, operator, config = "slurm.operator", self._answers.operator, report.config
        level = self.read_operator_level() if config.accounting else None
        if self._answers.slurm.create_operator and level is not None:
            yield make_result(
                name, OK, f"{operator} has Slurm's operator level, or gets it with sacctmgr."
            )
        else:
            yield make_result_of_finding(name, check_operator(operator, config, level))
        if config.accounting and _is_controller_elsewhere(report.values):
            yield make_result(
                "slurm.controller",
                WARNING,
                f"slurmctld runs on {_get_controller_host(report.values)}, which must know {operator} with the "
                "same uid.",
                f"Compare `id -u {operator}` on both machines.",
            )

    def _check_users(self) -> CheckResult:
        """Compare the uids of Slurm's users with the range of accounts that jobs may run as."""
        name, allowed = "slurm.users", self._answers.accounts
        answer = self.run_command("sacctmgr", "-nP", "show", "user", "format=user")
        if not answer.has_succeeded:
            return make_result(
                name,
                UNKNOWN,
                "slurmdbd does not list Slurm's users.",
                "Compare `id -u USER` of some users with accounts.max_uid.",
            )
        users = [user for user in answer.output.split() if user != "root"][:_MOST_USERS]
        outside = []
        for user in users:
            account = find_account(user)
            if account and not allowed.min_uid <= account.pw_uid <= allowed.max_uid:
                outside.append(f"{user} ({account.pw_uid})")
        own = {self._answers.account, self._answers.operator}
        outside = [user for user in outside if user.partition(" ")[0] not in own]
        if outside:
            return make_result(
                name,
                WARNING,
                f"The uids of {len(outside)} of {len(users)} users of Slurm are outside of "
                f"{allowed.min_uid} to {allowed.max_uid}: {', '.join(outside[:5])}. They cannot start jobs.",
                "Set accounts.min_uid and accounts.max_uid to the range of the users' uids.",
            )
        return make_result(name, OK, f"The uids of {len(users)} users of Slurm are permitted.")

    def read_operator_level(self) -> str | None:
        """Return the AdminLevel of the operator; empty: none, None: slurmdbd does not tell."""
        operator = self._answers.operator
        answer = self.run_command(
            "sacctmgr", "-nP", "show", "user", operator, "format=user,adminlevel"
        )
        if not answer.has_succeeded:
            return None
        pairs = (line.partition("|") for line in answer.output.splitlines())
        return next((level for name, _, level in pairs if name == operator), "")

    def grant_operator_level(self) -> Answer:
        """Give the operator the operator level."""
        operator = self._answers.operator
        existing = self.run_command("sacctmgr", "-nP", "show", "user", operator, "format=user")
        if operator in existing.output.split():
            change = ("modify", "user", operator, "set", "adminlevel=operator")
        else:
            change = ("add", "user", operator, "account=root", "adminlevel=operator")
        return self.run_command("sacctmgr", "--immediate", *change)

    def _check_slurmrestd(self, report: SlurmReport) -> Iterator[CheckResult]:
        slurm = self._answers.slurm
        if slurm.rest_url is None:
            yield make_result(
                "slurm.rest", SKIPPED, "slurmrestd is not used: jobs are submitted with sbatch."
            )
            return
        yield make_result_of_finding("slurm.rest", asyncio.run(check_slurmrestd(slurm.rest_url)))
        if slurm.rest_url.startswith("http") and "auth/jwt" not in report.words("AuthAltTypes"):
            yield make_result(
                "slurm.jwt",
                FAILED,
                "slurmrestd is reached by http, which needs auth/jwt, and AuthAltTypes has none.",
                "Set AuthAltTypes=auth/jwt and AuthAltParameters=jwt_key=FILE in slurm.conf.",
            )
        elif slurm.jwt_key is not None:
            yield _check_jwt_key(slurm.jwt_key)

    def _check_shared_folder(self) -> CheckResult:
        """Compare the inode of the folder here with that on a node, in a job of the test user."""
        user, folder = self._answers.slurm.test_user, self._answers.slurm.software_dir
        name = "shared.nodes"
        if user is None:
            return make_result(
                name,
                SKIPPED,
                f"No node was asked whether it sees {folder}.",
                "Set slurm.test_user to an account that may submit jobs.",
            )
        if not folder.is_dir():
            return make_result(
                name,
                UNKNOWN,
                f"{folder} does not exist yet.",
                "Run this command again after the folder was created.",
            )
        if os.geteuid() != 0:
            return make_result(
                name, UNKNOWN, f"Only root can start a job as {user}.", "Run it as root."
            )
        if find_account(user) is None:
            return make_result(
                name, FAILED, f"There is no account {user} here.", "Correct slurm.test_user."
            )
        srun = (
            "srun",
            "--immediate=20",
            "--nodes=1",
            "--ntasks=1",
            "--time=1",
            "--quiet",
            "--export=NONE",
        )
        # Without variables a job has no PATH.
        job = ("--job-name=aitne-setup", "--chdir=/", "/usr/bin/stat", "--format=%i", str(folder))
        answer = self.run_command(*srun, *job, user=user, within_s=_NODE_WITHIN_S)
        if answer.status is None or "immediate" in answer.error or "busy" in answer.error:
            return make_result(
                name,
                UNKNOWN,
                f"No node was free for a job of one second: {_last_line(answer)}.",
                "Try again, or check by hand with `srun ls`.",
            )
        if answer.has_succeeded and answer.output.strip() == str(folder.stat().st_ino):
            return make_result(name, OK, f"A node sees the same {folder} as this machine.")
        reason = _last_line(answer) if not answer.has_succeeded else "another folder is there"
        return make_result(
            name,
            FAILED,
            f"A node does not see {folder} of this machine: {reason}.",
            "Export the folder to all nodes, or set slurm.software_dir to a folder that they share.",
        )


def find_defaults(run: Callable[..., Answer] = run_command) -> dict[str, str]:
    """Return the answers that follow from the Slurm of this machine, by name; empty: there is none."""
    if shutil.which("scontrol") is None:
        return {}
    answer = run(["scontrol", "show", "config"], within_s=5.0)
    if not answer.has_succeeded:
        return {}
    config = dict(config_values(answer.output))
    values = {"cluster": config.get("ClusterName", "local").lower()}
    for word in config.get("AuthAltParameters", "").split(","):
        if word.startswith("jwt_key="):
            values["jwt_key"] = word.removeprefix("jwt_key=")
    return values


def _check_settings(report: SlurmReport) -> Iterator[CheckResult]:
    for requirement in REQUIREMENTS:
        name = f"slurm.{requirement.name}"
        if requirement.is_met(report):
            value = report.values.get(requirement.name, "not set")
            yield make_result(name, OK, f"{requirement.name} is {value}.")
        else:
            yield make_result(
                name,
                WARNING,
                requirement.message(report),
                f"Set {requirement.line} in slurm.conf or cgroup.conf; the platform runs without it.",
            )


def _get_controller_host(config: Mapping[str, str]) -> str:
    named = config.get("SlurmctldHost[0]", config.get("SlurmctldHost", ""))
    return named.partition("(")[0] or "another machine"


def _is_controller_elsewhere(config: Mapping[str, str]) -> bool:
    own = socket.gethostname()
    names = {own, own.partition(".")[0], "localhost"}
    return _get_controller_host(config) not in names


def _check_jwt_key(path: Path) -> CheckResult:
    try:
        facts = path.stat()
    except PermissionError:
        return make_result(
            "slurm.jwt", UNKNOWN, f"{path} cannot be read by this account.", "Run it as root."
        )
    except OSError as error:
        return make_result(
            "slurm.jwt",
            FAILED,
            f"The key {path} cannot be read: {error.strerror}.",
            "Correct slurm.jwt_key: `scontrol show config` names it in AuthAltParameters.",
        )
    if facts.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        return make_result(
            "slurm.jwt",
            FAILED,
            f"Other accounts can read or change {path}, and act as every user.",
            f"`chmod 0600 {path}`",
        )
    return make_result("slurm.jwt", OK, f"The broker reads {path}.")


def _last_line(answer: Answer) -> str:
    lines = (answer.error or answer.output).strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"exit status {answer.status}"
