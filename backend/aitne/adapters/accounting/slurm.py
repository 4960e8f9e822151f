"""Accounting by slurmdbd: read and changed with sacctmgr and sacct; current use of limits, as
slurmctld counts it, is read with scontrol.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from typing_extensions import override

from aitne.adapters.accounting import _accounting_output_parser, _assoc_mgr
from aitne.core.errors import NotAllowed, NotSupported, SchedulerRejected, Unavailable
from aitne.core.models.limits import LimitUsage, Usage
from aitne.core.ports.accounting import (
    Accounting,
    AddAccount,
    AddMember,
    Associations,
    Change,
    JobEnergy,
    RemoveMember,
)
from aitne.core.ports.command import Command, Completed
from aitne.core.settings import Settings

_READ_TIMEOUT_S = 30.0
_APPLY_TIMEOUT_S = 60.0
_USAGE_TIMEOUT_S = 120.0
_QOS_KEPT_S = 60.0
_CONFIG = (
    *("ClusterName", "AccountingStorageType", "AccountingStorageEnforce"),
    "AcctGatherEnergyType",
)
_NO_ENERGY = ("", "none", "acct_gather_energy/none")
_DENIED = ("access/permission denied", "not allowed", "permission denied")
_SILENT = (
    *("unable to contact slurm", "connection refused", "problem talking to the database"),
    *("timed out", "unable to connect", "zero bytes were transmitted", "no route to host"),
    *("connection failure", "connection timed out"),
)
NO_ACCOUNTING = (
    "This cluster has no accounting: AccountingStorageType in slurm.conf is not "
    "accounting_storage/slurmdbd. Without slurmdbd there are no limits and no usage records."
)


class SlurmAccounting(Accounting):
    """Implementation of ``core.ports.accounting.Accounting`` with Slurm's commands (sacctmgr,
    sacct, scontrol).
    """

    def __init__(self, settings: Settings, command: Command) -> None:
        conf = settings.slurm.conf
        # By default sacct prints local times.
        self._env = {"TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        if conf is not None:
            self._env["SLURM_CONF"] = str(conf)
        self._command = command
        self._config: dict[str, str] = {}
        self._qos = ""
        self._qos_read_at: float | None = None

    @override
    async def read_associations(self) -> Associations:
        cluster = await self._read_cluster_name()
        associations = await self._run_sacctmgr_show(
            *("assoc", "WOPLimits", "where", f"Cluster={cluster}"),
            f"format={','.join(_accounting_output_parser.ASSOCIATION_FIELDS)}",
        )
        users = await self._run_sacctmgr_show(
            "user", f"format={','.join(_accounting_output_parser.USER_FIELDS)}"
        )
        counted = await self._run_sacctmgr_show("tres", "format=Type,Name")
        accounts, members = _accounting_output_parser.parse_associations(associations)
        return Associations(
            cluster=cluster,
            accounts=accounts,
            members=members,
            users=_accounting_output_parser.parse_users(users),
            tres=_accounting_output_parser.parse_counted_resources(counted),
        )

    @override
    async def apply_changes(self, changes: Sequence[Change]) -> None:
        cluster = await self._read_cluster_name()
        for change in changes:
            words = _accounting_output_parser.make_sacctmgr_arguments(change, cluster)
            completed = await self._run_command(["sacctmgr", "-i", *words], _APPLY_TIMEOUT_S)
            # Another process may have made the same change a moment ago; that is not a failure.
            unchanged = isinstance(change, AddAccount | AddMember | RemoveMember) and any(
                word in completed.output_text for word in ("Nothing new added", "Nothing deleted")
            )
            if completed.returncode and not unchanged:
                raise _make_error(completed, f"`sacctmgr {' '.join(words)}`")

    @override
    async def read_usage(self, start: datetime, end: datetime) -> Sequence[Usage]:
        # sacct and not sreport: sreport updates its sums only once an hour and omits jobs that just
        # ended. ``-T`` truncates jobs to the interval, ``-D`` shows each run of a requeued job.
        await self._read_cluster_name()
        argv = [
            "sacct",
            "-a",
            "-X",
            "-T",
            "-D",
            "-n",
            "-P",
            "-S",
            _format_time(start),
            "-E",
            _format_time(end),
        ]
        argv += ["-o", ",".join(_accounting_output_parser.USAGE_FIELDS)]
        return _accounting_output_parser.parse_usage(
            _decode_output(await self._run_checked(argv, _USAGE_TIMEOUT_S)), _format_time(end)
        )

    @override
    async def read_energy(self, start: datetime, end: datetime) -> Sequence[JobEnergy]:
        await self._read_cluster_name()
        if self._config["AcctGatherEnergyType"] in _NO_ENERGY:
            return ()
        # Without ``-D`` a requeued job has its last run only.
        argv = ["sacct", "-a", "-X", "-n", "-P", "-S", _format_time(start), "-E", _format_time(end)]
        argv += ["-o", ",".join(_accounting_output_parser.ENERGY_FIELDS)]
        return _accounting_output_parser.parse_energy(
            _decode_output(await self._run_checked(argv, _USAGE_TIMEOUT_S))
        )

    @override
    async def read_limit_usage(self) -> LimitUsage:
        await self._read_cluster_name()
        now = time.monotonic()
        if self._qos_read_at is None or now - self._qos_read_at > _QOS_KEPT_S:
            self._qos = await self._run_sacctmgr_show(
                "qos", f"format={','.join(_assoc_mgr.QOS_FIELDS)}"
            )
            self._qos_read_at = now
        argv = ["scontrol", "show", "assoc_mgr", "flags=assoc,qos"]
        text = _decode_output(await self._run_checked(argv, _READ_TIMEOUT_S))
        enforced = self._config["AccountingStorageEnforce"].split(",")
        return LimitUsage(
            enforced=frozenset(word for word in enforced if word not in ("", "none")),
            associations=_assoc_mgr.parse_association_use(text),
            qos=_assoc_mgr.parse_qos_use(text, self._qos),
        )

    async def _read_cluster_name(self) -> str:
        """Return the cluster's name. The first call also reads what the cluster enforces
        (AccountingStorageEnforce).
        """
        if not self._config:
            text = _decode_output(
                await self._run_checked(["scontrol", "show", "config"], _READ_TIMEOUT_S)
            )
            self._config = _accounting_output_parser.parse_config(text, _CONFIG)
        if "slurmdbd" not in self._config["AccountingStorageType"]:
            raise NotSupported(NO_ACCOUNTING)
        return self._config["ClusterName"]

    async def _run_sacctmgr_show(self, *words: str) -> str:
        return _decode_output(
            await self._run_checked(["sacctmgr", "-n", "-P", "show", *words], _READ_TIMEOUT_S)
        )

    async def _run_checked(self, argv: Sequence[str], timeout_s: float) -> Completed:
        completed = await self._run_command(argv, timeout_s)
        if completed.returncode:
            raise _make_error(completed, argv[0])
        return completed

    async def _run_command(self, argv: Sequence[str], timeout_s: float) -> Completed:
        return await self._command.run(argv, account=None, env=self._env, timeout_s=timeout_s)


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _decode_output(completed: Completed) -> str:
    return completed.stdout.decode("utf-8", "replace")


def _make_error(completed: Completed, what: str) -> Exception:
    message = " ".join(completed.output_text.split())[:500] or f"exit code {completed.returncode}"
    lower = message.lower()
    if any(word in lower for word in _SILENT):
        return Unavailable(
            f"Slurm's accounting does not answer ({message}). Check slurmdbd and slurmctld, then try "
            "again."
        )
    if any(word in lower for word in _DENIED):
        return NotAllowed(
            f"{what}: {message}. The platform's account needs AdminLevel=Operator: `sacctmgr modify "
            "user NAME set AdminLevel=Operator`."
        )
    return SchedulerRejected(f"{what} was refused: {message}")
