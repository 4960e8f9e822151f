"""Checks of the broker and of the Unix accounts of users."""

from __future__ import annotations

import asyncio

from aitne import __version__
from aitne.adapters.unix_account_mapping import UnixAccounts
from aitne.core.broker.protocol_versions import PROTOCOL
from aitne.core.errors import InvalidInput, Unavailable
from aitne.operations.doctor import root_files
from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_unknown_finding,
    make_warning_finding,
)
from aitne.services.users.first_run import unix_user

_NO_BROKER = "There is no broker: all jobs run as the platform's own account."
_SHOWN = 5
_USERS_AT_ONCE = 200
_MOST_USERS = 2_000


@check("broker", Subject.ACCOUNTS, "The broker listens.")
async def check_broker_socket(host: CheckedHost) -> Finding:
    """Check the broker's socket, as the health page does."""
    return await host.check_health("broker")


@check(
    "broker-protocol", Subject.ACCOUNTS, "The broker has the protocol and release of the platform."
)
async def broker_protocol(host: CheckedHost) -> Finding:
    """Compare protocol, release and scheduler of the broker with the platform's."""
    if host.settings.broker.socket is None:
        return make_skipped_finding(_NO_BROKER)
    try:
        welcome = await host.query_broker()
    except Unavailable as error:
        return make_failed_finding(
            error.message,
            "Start the broker, put the platform's account into its `peers`, or update it together with "
            "the platform.",
        )
    if welcome.scheduler != host.settings.scheduler:
        return make_failed_finding(
            f"The broker has the scheduler {welcome.scheduler}, and the platform "
            f"{host.settings.scheduler}.",
            "Set `scheduler` to the same value in aitne.toml and broker.toml.",
        )
    if welcome.release != __version__ or welcome.protocol != PROTOCOL:
        return make_warning_finding(
            f"The broker has release {welcome.release} (protocol {welcome.protocol}), and the platform "
            f"{__version__} (protocol {PROTOCOL}). What the older one lacks is refused.",
            "Finish the update: restart the broker. Running jobs continue.",
        )
    return make_ok_finding(
        f"The broker has release {welcome.release} and protocol {welcome.protocol}."
    )


@check("broker-settings", Subject.ACCOUNTS, "aitne.toml and broker.toml agree.")
def broker_settings(host: CheckedHost) -> Finding:
    """Compare the settings of accounts and folders in both files."""
    if host.settings.broker.socket is None:
        return make_skipped_finding(_NO_BROKER)
    own = host.settings.uses_user_accounts
    path = host.settings.broker_dir / "broker.toml" if own else root_files.BROKER_CONFIG
    if host.root_files is None:
        return make_unknown_finding(f"Only root can read {path}.", "Run the command as root.")
    config = host.root_files.brokers.get(path)
    if config is None:
        return make_unknown_finding(
            f"There is no {path} here, so the broker's settings are not known."
        )
    if isinstance(config, str):
        return make_failed_finding(config, f"Correct {path}: the broker does not start with it.")
    ours, theirs = host.settings, config
    different = [
        name
        for name, mine, other in (
            ("accounts.min_uid", ours.accounts.min_uid, theirs.accounts.min_uid),
            ("accounts.max_uid", ours.accounts.max_uid, theirs.accounts.max_uid),
            ("accounts.groups", sorted(ours.accounts.groups), sorted(theirs.accounts.groups)),
            ("slurm.jobs_dir", ours.slurm.jobs_dir, theirs.slurm.jobs_dir),
            ("slurm.spare_jobs_dir", ours.spare_jobs_dir, theirs.slurm.spare_jobs_dir),
            ("storage.areas", ours.storage.areas, theirs.storage.areas),
        )
        if mine != other
    ]
    if different:
        return make_failed_finding(
            f"aitne.toml and {path} differ in {', '.join(different)}, so the broker refuses what the "
            "platform accepts.",
            "Set the same values in both, and restart both.",
        )
    return make_ok_finding(f"aitne.toml and {path} agree.")


@check("accounts", Subject.ACCOUNTS, "Every user has a Unix account that jobs may run as.")
async def check_user_accounts(host: CheckedHost) -> Finding:
    """Check the mapping of users to Unix accounts, with the permitted uids and groups. The first
    administrator, whose account runs the platform, needs none: its jobs are refused.
    """
    if host.settings.broker.socket is None:
        return make_skipped_finding(_NO_BROKER)
    names, cursor, platform = list[str](), None, unix_user()
    while len(names) < _MOST_USERS:
        page = await host.store.list_users(cursor=cursor, limit=_USERS_AT_ONCE)
        names += [item.name for item in page.items if not item.disabled and item.name != platform]
        cursor = page.next_cursor
        if cursor is None:
            break
    problems = await asyncio.to_thread(_list_account_problems, host, names)
    if not problems:
        return make_ok_finding(f"{len(names)} users have Unix accounts that jobs may run as.")
    listed = " ".join(list(problems.values())[:_SHOWN])
    return make_warning_finding(
        f"{len(problems)} of {len(names)} users have no Unix account that jobs may run as. {listed}",
        "Create the accounts, map them under [accounts.map], or widen accounts.min_uid, max_uid and "
        "groups in both files.",
    )


def _list_account_problems(host: CheckedHost, names: list[str]) -> dict[str, str]:
    mapping, problems = UnixAccounts(host.settings), {}
    for name in names:
        try:
            mapping.get_account(name)
        except InvalidInput as error:
            problems[name] = error.message.removeprefix("account: ")
    return problems


@check("isolation", Subject.ACCOUNTS, "Users are separated from each other.")
async def check_user_isolation(host: CheckedHost) -> Finding:
    """Report how users are separated, as the health page does."""
    return await host.check_health("isolation")
