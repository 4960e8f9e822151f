"""Initial content of the cluster's accounting database: accounts and limits. slurmdbd itself
creates Slurm's schema.
"""

from __future__ import annotations

from aitne.adapters.program_runner import run_program
from aitne_devcluster.plan import DevClusterPlan
from aitne_devcluster.processes import make_environment, wait_until
from aitne_devcluster.users import ACCOUNTS, OPERATOR, USERS

QOS_MAX_WALL = "00:10:00"
QOS_MAX_GPUS = 8
_REGISTERED_S = 30.0


def make_database(plan: DevClusterPlan) -> None:
    """Create the files of an empty database. Raises ``SetupError``."""
    argv = [
        *plan.prefix,
        "mariadb-install-db",
        "--no-defaults",
        "--user=slurm",
        f"--datadir={plan.root}/db/data",
        f"--tmpdir={plan.root}/db/tmp",
        "--auth-root-authentication-method=socket",
        "--skip-test-db",
        "--innodb-log-file-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
    ]
    run_program(argv, env=make_environment(plan.root, plan.slurm_conf))


def make_login(plan: DevClusterPlan) -> None:
    """Create the database and the account with which slurmdbd logs in. Raises ``SetupError``."""
    statements = (
        "create database if not exists slurm_acct_db; "
        "create user if not exists slurm@localhost identified by 'slurm'; "
        "grant all on slurm_acct_db.* to slurm@localhost;"
    )
    argv = [*plan.prefix, "mariadb", "--no-defaults", "-S", str(plan.database_socket)]
    run_program(argv, env=make_environment(plan.root, plan.slurm_conf), stdin=statements)


def create_accounts(plan: DevClusterPlan) -> None:
    """Create the cluster, its accounts and members, and the QOS, except the limits of GPUs, which
    need a running slurmctld. Raises ``SetupError``.
    """
    # Each call of sacctmgr waits a third of a second for its connection's end, hence one file.
    path = plan.root / "etc" / "associations"
    path.write_text(format_associations(plan.name), encoding="ascii")
    _run_sacctmgr(plan, "add", "qos", "short", f"MaxWall={QOS_MAX_WALL}")
    _run_sacctmgr(plan, "load", f"file={path}")


def format_associations(cluster: str) -> str:
    """Return the accounts and their members in the format of ``sacctmgr load`` (sacctmgr(1), FLAT
    FILE).
    """
    lines = [
        f"Cluster - '{cluster}':QOS='normal'",
        "Parent - 'root'",
        f"User - '{OPERATOR}':DefaultAccount='root':AdminLevel='Operator'",
    ]
    lines += [
        f"Account - '{name}':Description='{name}':Organization='dev':DefaultQOS='normal':QOS='normal,short'"
        for name in ACCOUNTS
    ]
    for name in ACCOUNTS:
        lines.append(f"Parent - '{name}'")
        lines += [
            f"User - '{user.name}':DefaultAccount='{user.account}'"
            for user in USERS
            if name in user.accounts
        ]
    return "\n".join(lines) + "\n"


def limit_gpus(plan: DevClusterPlan) -> None:
    """Set the limits of GPUs in the QOS. slurmctld must have registered, since only then the
    database knows GPUs as a resource. Raises ``SetupError``.
    """
    # Otherwise sacctmgr reports that it does not know the resource.
    wait_until(lambda: "gres/gpu" in _list_tres(plan), _REGISTERED_S)
    _run_sacctmgr(plan, "modify", "qos", "short", "set", f"GrpTRES=gres/gpu={QOS_MAX_GPUS}")


def _list_tres(plan: DevClusterPlan) -> list[str]:
    argv = [*plan.prefix, "sacctmgr", "--noheader", "--parsable2", "show", "tres"]
    lines = run_program(argv, env=make_environment(plan.root, plan.slurm_conf)).splitlines()
    return ["/".join(filter(None, line.split("|")[:2])) for line in lines]


def _run_sacctmgr(plan: DevClusterPlan, *words: str) -> None:
    argv = [*plan.prefix, "sacctmgr", "--immediate", "--quiet", *words]
    run_program(argv, env=make_environment(plan.root, plan.slurm_conf))
