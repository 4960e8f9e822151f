"""Inspection of the site's Slurm: its settings, accounting, the operator, slurmrestd, and its nodes."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aitne.adapters.schedulers._slurm.config import config_values
from aitne.core.models.check import CheckResult, CheckState
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.checks import Answer, account_named, check, command
from aitne.operations.setup.slurm_settings import REQUIREMENTS, words

OK, WARNING, FAILED = CheckState.OK, CheckState.WARNING, CheckState.FAILED
UNKNOWN, SKIPPED = CheckState.UNKNOWN, CheckState.SKIPPED
OLDEST_SLURM = (22, 5)
_OPERATORS = ("operator", "administrator")
_NODE_WITHIN_S = 40.0
_MOST_USERS = 1_000


class SlurmSite:
    """The site's Slurm, as its commands describe it to the account that runs the setup."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        slurm = answers.settings.get("slurm")
        prefix = slurm.get("command_prefix", []) if isinstance(slurm, dict) else []
        self._prefix: Sequence[str] = prefix if isinstance(prefix, list) else []
        self._environment = {"SLURM_CONF": answers.slurm.conf} if answers.slurm.conf else {}

    def run(self, *argv: str, user: str | None = None, within_s: float = 15.0) -> Answer:
        """Run one of Slurm's commands and return its end."""
        account = None if user is None else account_named(user)
        return command(
            [*self._prefix, *argv],
            account=account,
            environment=dict(self._environment),
            within_s=within_s,
        )

    def checks(self) -> Iterator[CheckResult]:
        """Yield the results of all checks. Nothing in Slurm is changed."""
        answer = self.run("scontrol", "show", "config")
        if not answer.succeeded:
            yield check(
                "slurm",
                FAILED,
                f"Slurm does not answer: {_last_line(answer)}.",
                "Install Slurm's commands here (Debian: slurm-client) with the slurm.conf and munge key of "
                "the cluster, start slurmctld, or set slurm.conf in the answers.",
            )
            return
        config = dict(config_values(answer.output))
        yield _version(config)
        yield from self._settings(config)
        yield self._nodes()
        yield from self._operator(config)
        yield self._users()
        yield from self._rest(config)
        yield self._shared_folder()

    def _settings(self, config: Mapping[str, str]) -> Iterator[CheckResult]:
        for needed in REQUIREMENTS:
            value = config.get(needed.name, "(null)")
            if needed.fulfilled(value):
                yield check(f"slurm.{needed.name}", OK, f"{needed.name} is {value}.")
            else:
                yield check(
                    f"slurm.{needed.name}",
                    WARNING,
                    f"{needed.name} is {value}. {needed.effect}",
                    f"Set {needed.line} in slurm.conf; the platform runs without it.",
                )

    def _nodes(self) -> CheckResult:
        answer = self.run("sinfo", "--noheader", "--Node", "--format=%N|%P|%T|%G")
        rows = [line.split("|") for line in answer.output.splitlines() if line.count("|") == 3]
        if not answer.succeeded or not rows:
            return check(
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
            return check(
                "slurm.nodes",
                WARNING,
                f"{message} {len(away)} are down or drained: {', '.join(away[:5])}.",
                "`sinfo -R` shows the reasons.",
            )
        return check("slurm.nodes", OK, message)

    def _operator(self, config: Mapping[str, str]) -> Iterator[CheckResult]:
        operator = self._answers.operator
        private = words(config.get("PrivateData", "")) - {"none", "(null)", ""}
        hidden = f"PrivateData is {', '.join(sorted(private)) or 'none'}"
        if "slurmdbd" not in config.get("AccountingStorageType", ""):
            if "jobs" in private:
                yield check(
                    "slurm.operator",
                    FAILED,
                    f"{hidden}, and without accounting no account can be an operator.",
                    "Set up slurmdbd, or remove `jobs` from PrivateData in slurm.conf.",
                )
            return
        level = self.operator_level()
        if level is None:
            yield check(
                "slurm.operator",
                UNKNOWN,
                "slurmdbd does not tell the level of accounts.",
                f"As root: `sacctmgr show user {operator} format=user,adminlevel`.",
            )
        elif level.lower() in _OPERATORS:
            yield check("slurm.operator", OK, f"{operator} has the level {level}. {hidden}.")
        elif self._answers.slurm.create_operator:
            yield check(
                "slurm.operator", OK, f"{operator} gets the operator level with sacctmgr. {hidden}."
            )
        else:
            yield check(
                "slurm.operator",
                FAILED if "jobs" in private else WARNING,
                f"{operator} is no operator of Slurm. {hidden}; an operator sees the jobs of all users "
                "and extends their time limits.",
                "Set slurm.create_operator = true, or run "
                f"`sacctmgr -i add user {operator} account=root adminlevel=operator`.",
            )
        if _elsewhere(config):
            yield check(
                "slurm.controller",
                WARNING,
                f"slurmctld runs on {_controller(config)}, which must know {operator} with the same uid.",
                f"Compare `id -u {operator}` on both machines.",
            )

    def _users(self) -> CheckResult:
        """Compare the uids of Slurm's users with the range of accounts that jobs may run as."""
        name, allowed = "slurm.users", self._answers.accounts
        answer = self.run("sacctmgr", "-nP", "show", "user", "format=user")
        if not answer.succeeded:
            return check(
                name,
                UNKNOWN,
                "slurmdbd does not list Slurm's users.",
                "Compare `id -u USER` of some users with accounts.max_uid.",
            )
        users = [user for user in answer.output.split() if user != "root"][:_MOST_USERS]
        outside = []
        for user in users:
            account = account_named(user)
            if account and not allowed.min_uid <= account.pw_uid <= allowed.max_uid:
                outside.append(f"{user} ({account.pw_uid})")
        own = {self._answers.account, self._answers.operator}
        outside = [user for user in outside if user.partition(" ")[0] not in own]
        if outside:
            return check(
                name,
                WARNING,
                f"The uids of {len(outside)} of {len(users)} users of Slurm are outside of "
                f"{allowed.min_uid} to {allowed.max_uid}: {', '.join(outside[:5])}. They cannot start jobs.",
                "Set accounts.min_uid and accounts.max_uid to the range of the users' uids.",
            )
        return check(name, OK, f"The uids of {len(users)} users of Slurm are permitted.")

    def operator_level(self) -> str | None:
        """Return the AdminLevel of the operator; empty: none, None: slurmdbd does not tell."""
        operator = self._answers.operator
        answer = self.run("sacctmgr", "-nP", "show", "user", operator, "format=user,adminlevel")
        if not answer.succeeded:
            return None
        pairs = (line.partition("|") for line in answer.output.splitlines())
        return next((level for name, _, level in pairs if name == operator), "")

    def make_operator(self) -> Answer:
        """Give the operator the operator level."""
        operator = self._answers.operator
        existing = self.run("sacctmgr", "-nP", "show", "user", operator, "format=user")
        if operator in existing.output.split():
            change = ("modify", "user", operator, "set", "adminlevel=operator")
        else:
            change = ("add", "user", operator, "account=root", "adminlevel=operator")
        return self.run("sacctmgr", "--immediate", *change)

    def _rest(self, config: Mapping[str, str]) -> Iterator[CheckResult]:
        slurm = self._answers.slurm
        if slurm.rest_url is None:
            yield check(
                "slurm.rest", SKIPPED, "slurmrestd is not used: jobs are submitted with sbatch."
            )
            return
        problem = _no_http(slurm.rest_url)
        if problem:
            yield check(
                "slurm.rest",
                FAILED,
                f"slurmrestd does not answer at {slurm.rest_url}: {problem}.",
                "Start slurmrestd, correct slurm.rest_url, or remove it from the answers.",
            )
        else:
            yield check("slurm.rest", OK, f"slurmrestd answers at {slurm.rest_url}.")
        if slurm.rest_url.startswith("http") and "auth/jwt" not in config.get("AuthAltTypes", ""):
            yield check(
                "slurm.jwt",
                FAILED,
                "slurmrestd is reached by http, which needs auth/jwt, and AuthAltTypes has none.",
                "Set AuthAltTypes=auth/jwt and AuthAltParameters=jwt_key=FILE in slurm.conf.",
            )
        elif slurm.jwt_key is not None:
            yield _key(Path(slurm.jwt_key))

    def _shared_folder(self) -> CheckResult:
        """Compare the inode of the folder here with that on a node, in a job of the test user."""
        user, folder = self._answers.slurm.test_user, self._answers.slurm.software_dir
        name = "shared.nodes"
        if user is None:
            return check(
                name,
                SKIPPED,
                f"No node was asked whether it sees {folder}.",
                "Set slurm.test_user to an account that may submit jobs.",
            )
        if not Path(folder).is_dir():
            return check(
                name,
                UNKNOWN,
                f"{folder} does not exist yet.",
                "Run this command again after the folder was created.",
            )
        if os.geteuid() != 0:
            return check(name, UNKNOWN, f"Only root can start a job as {user}.", "Run it as root.")
        if account_named(user) is None:
            return check(
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
        job = ("--job-name=aitne-setup", "--chdir=/", "/usr/bin/stat", "--format=%i", folder)
        answer = self.run(*srun, *job, user=user, within_s=_NODE_WITHIN_S)
        if answer.status is None or "immediate" in answer.error or "busy" in answer.error:
            return check(
                name,
                UNKNOWN,
                f"No node was free for a job of one second: {_last_line(answer)}.",
                "Try again, or check by hand with `srun ls`.",
            )
        if answer.succeeded and answer.output.strip() == str(Path(folder).stat().st_ino):
            return check(name, OK, f"A node sees the same {folder} as this machine.")
        reason = _last_line(answer) if not answer.succeeded else "another folder is there"
        return check(
            name,
            FAILED,
            f"A node does not see {folder} of this machine: {reason}.",
            "Export the folder to all nodes, or set slurm.software_dir to a folder that they share.",
        )


def defaults(run: Callable[..., Answer] = command) -> dict[str, str]:
    """Return the answers that follow from the Slurm of this machine, by name; empty: there is none."""
    if shutil.which("scontrol") is None:
        return {}
    answer = run(["scontrol", "show", "config"], within_s=5.0)
    if not answer.succeeded:
        return {}
    config = dict(config_values(answer.output))
    values = {"cluster": config.get("ClusterName", "local").lower()}
    for word in config.get("AuthAltParameters", "").split(","):
        if word.startswith("jwt_key="):
            values["jwt_key"] = word.removeprefix("jwt_key=")
    return values


def _version(config: Mapping[str, str]) -> CheckResult:
    release = config.get("SLURM_VERSION", "unknown")
    numbers = tuple(int(part) for part in release.split(".")[:2] if part.isdecimal())
    message = f"Slurm {release} of the cluster {config.get('ClusterName', '?')}."
    if len(numbers) == 2 and numbers < OLDEST_SLURM:
        return check(
            "slurm", WARNING, f"{message} The oldest that was tested is 22.05.", "Update Slurm."
        )
    return check("slurm", OK, message)


def _controller(config: Mapping[str, str]) -> str:
    named = config.get("SlurmctldHost[0]", config.get("SlurmctldHost", ""))
    return named.partition("(")[0] or "another machine"


def _elsewhere(config: Mapping[str, str]) -> bool:
    own = socket.gethostname()
    names = {own, own.partition(".")[0], "localhost"}
    return _controller(config) not in names


def _key(path: Path) -> CheckResult:
    try:
        facts = path.stat()
    except PermissionError:
        return check(
            "slurm.jwt", UNKNOWN, f"{path} cannot be read by this account.", "Run it as root."
        )
    except OSError as error:
        return check(
            "slurm.jwt",
            FAILED,
            f"The key {path} cannot be read: {error.strerror}.",
            "Correct slurm.jwt_key: `scontrol show config` names it in AuthAltParameters.",
        )
    if facts.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        return check(
            "slurm.jwt",
            FAILED,
            f"Other accounts can read or change {path}, and act as every user.",
            f"`chmod 0600 {path}`",
        )
    return check("slurm.jwt", OK, f"The broker reads {path}.")


def _no_http(url: str) -> str:
    """Return the reason why there is no HTTP server; empty: it answers, with any status."""
    connection: http.client.HTTPConnection
    parts = urlsplit(url)
    try:
        if parts.scheme == "unix":
            connection = http.client.HTTPConnection("localhost", timeout=5)
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(5)
            connection.sock.connect(parts.path)
        elif parts.scheme == "https":
            connection = http.client.HTTPSConnection(parts.netloc, timeout=5)
        else:
            connection = http.client.HTTPConnection(parts.netloc, timeout=5)
        connection.request("GET", "/openapi/v3")
        connection.getresponse()
        connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)
    return ""


def _last_line(answer: Answer) -> str:
    lines = (answer.error or answer.output).strip().splitlines()
    return lines[-1].rstrip(".") if lines else f"exit status {answer.status}"
