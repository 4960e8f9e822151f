"""A Slurm cluster over a fleet, as a small site would set it up with Debian's packages.

``portal`` has MariaDB, slurmdbd, slurmctld and slurmrestd; every other machine is a node with four pretended
GPUs. Users and their home directories are the same everywhere. What Slurm needs to run in a container is
in the comments of ``slurm.conf``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.machines.fleet import Fleet
from tests.machines.machine import Machine, MachineError

PORTAL = "portal"
OPERATOR = "aitne-op"
"""The Unix user that may see every job and change it: AdminLevel=Operator in slurmdbd."""
SYSTEM_USER = "aitne"
"""The account that the platform runs as."""
USERS = {SYSTEM_USER: 900, OPERATOR: 901, "alice": 2001, "bob": 2002}
"""User identities, the same on all machines."""
ACCOUNTS = {"alice": "vision", "bob": "speech"}
GPUS = 4
SLURMD_TIMEOUT_S = 20
REST_PORT = 6820

SLURM_CONF = """\
ClusterName=machines
SlurmctldHost={portal}
SlurmUser=slurm
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
# No cgroups of its own: the machine is a container.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
# The machines share this one's processors, whatever the lines below say of them.
SlurmdParameters=config_overrides
SlurmdTimeout={slurmd_timeout}
KillWait=2
MinJobAge=300
DefMemPerCPU=100
SchedulerParameters=sched_min_interval=0,sched_interval=5,bf_interval=2,batch_sched_delay=0
PriorityType=priority/multifactor
PrivateData=jobs
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={portal}
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu,gres/gpu:a100
AccountingStoreFlags=job_comment
NodeName={nodes} CPUs=4 RealMemory=4000 Gres=gpu:a100:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={nodes} Default=YES MaxTime=1-0 DefaultTime=60 State=UP
PartitionName=debug Nodes={nodes} MaxTime=30 PriorityTier=10 State=UP
"""
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
DbdHost={portal}
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
"""
GRES_CONF = f"AutoDetect=off\nName=gpu Type=a100 File=/dev/fakegpu[0-{GPUS - 1}]\n"
# A device has to be there for each; /dev is made anew at every boot.
DEVICES = "".join(f"c /dev/fakegpu{index} 0666 - - - 1:3\n" for index in range(GPUS))
RESTD = f"""\
[Service]
User=nobody
Group=nogroup
ExecStart=
ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt 0.0.0.0:{REST_PORT}
"""
SQL = """\
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@localhost IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""


@dataclass(frozen=True, slots=True)
class SlurmCluster:
    """A cluster that runs. ``portal`` has the daemons, ``nodes`` the slurmds."""

    fleet: Fleet
    portal: Machine
    nodes: dict[str, Machine]

    def sbatch(self, user: str, script: str, *options: str) -> int:
        """Submit as a user of the portal; the job's number. Without ``--output`` the log is at home.

        Raises:
            MachineError: Slurm refused it.
        """
        argv = ["sbatch", "--parsable", f"--chdir=/home/{user}", *options]
        return int(self.portal.run(argv, user=user, stdin=script).stdout.split(";")[0])

    def job_state(self, job: int) -> str:
        """Return a job's state from Slurm's accounting, such as `NODE_FAIL`; empty while unknown."""
        argv = ["sacct", "-n", "-X", "-P", "-D", "-j", str(job), "-o", "State"]
        return self.portal.run(argv).stdout.strip().rpartition("\n")[2]

    def node_state(self, node: str) -> str:
        """Return slurmctld's state of a node, such as `idle` or `down*` (sinfo's %t)."""
        return self.portal.run(["sinfo", "-h", "-p", "gpu", "-n", node, "-o", "%t"]).stdout.strip()

    def wait_idle(self, nodes: Sequence[str] = (), within_s: float = 60) -> None:
        """Wait until these nodes (all) are free.

        Raises:
            MachineError: they are not; the message has what sinfo and the daemons say.
        """

        def idle() -> bool:
            return {self.node_state(node) for node in nodes or self.nodes} == {"idle"}

        self.wait(idle, within_s, "the nodes are idle")

    def wait(self, condition: Callable[[], bool], within_s: float, what: str) -> None:
        """Wait for something about the cluster.

        Raises:
            MachineError: it is not so after ``within_s`` seconds.
        """
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise MachineError(f"After {within_s} s it is not so that {what}.\n{self.report()}")
            time.sleep(0.2)

    def report(self) -> str:
        """Return the command output and logs that show why the cluster does not work."""
        looks = [(self.portal, ["sinfo", "-R"]), (self.portal, ["sinfo", "-N", "-l"])]
        looks.append((self.portal, ["squeue", "-l"]))
        looks.append((self.portal, ["tail", "-n20", "/var/log/slurm/slurmctld.log"]))
        for node in self.nodes.values():
            looks.append((node, ["tail", "-n10", "/var/log/slurm/slurmd.log"]))
        parts = []
        for machine, argv in looks:
            parts.append(f"== {machine.name}: {' '.join(argv)}")
            if machine.leader() is None:
                parts.append("is off")
            else:
                done = machine.run(argv, check=False)
                parts.append(done.stdout + done.stderr)
        return "\n".join(parts)


def set_up(fleet: Fleet, nodes: Sequence[str] = ("n1", "n2")) -> SlurmCluster:
    """Boot the machines and start Slurm on them; every node is idle afterwards.

    Raises:
        MachineError: a machine or a daemon did not come up.
    """
    portal, *others = fleet.up([PORTAL, *nodes])
    munge_key = secrets.token_bytes(128)
    conf = SLURM_CONF.format(
        portal=PORTAL, nodes=",".join(nodes), gpus=GPUS, slurmd_timeout=SLURMD_TIMEOUT_S
    )
    for machine in (portal, *others):
        _common(machine, munge_key, conf)
    cluster = SlurmCluster(fleet, portal, {machine.name: machine for machine in others})
    _portal(cluster)
    for machine in others:
        machine.put("/etc/slurm/gres.conf", GRES_CONF)
        machine.put("/etc/tmpfiles.d/fakegpu.conf", DEVICES)
        machine.run(["systemd-tmpfiles", "--create", "fakegpu.conf"])
        start(machine, "slurmd.service")
    cluster.wait_idle()
    return cluster


def _common(machine: Machine, munge_key: bytes, conf: str) -> None:
    for name, uid in USERS.items():
        options = ["--create-home", "--shell=/bin/bash", "--user-group", f"--uid={uid}"]
        # The home directory is there already on every machine but the first.
        machine.run(["useradd", *options, name])
    machine.put("/etc/munge/munge.key", munge_key, mode=0o400, owner="munge")
    machine.put("/etc/slurm/slurm.conf", conf)
    machine.put("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
    for folder in ("/var/log/slurm", "/var/lib/slurm/slurmctld", "/var/lib/slurm/slurmd"):
        machine.run(["install", "-d", "--owner=slurm", "--group=slurm", folder])
    start(machine, "munge.service")


def _portal(cluster: SlurmCluster) -> None:
    portal = cluster.portal
    password = secrets.token_urlsafe(16)
    portal.put("/etc/slurm/jwt.key", secrets.token_bytes(32), mode=0o400, owner="slurm")
    portal.put(
        "/etc/slurm/slurmdbd.conf",
        SLURMDBD_CONF.format(portal=PORTAL, password=password),
        mode=0o600,
        owner="slurm",
    )
    portal.put("/etc/systemd/system/slurmrestd.service.d/user.conf", RESTD)
    portal.run(["systemctl", "daemon-reload"])
    start(portal, "mariadb.service")
    portal.run(["mariadb"], stdin=SQL.format(password=password))
    start(portal, "slurmdbd.service")

    def answers() -> bool:
        return portal.run(["sacctmgr", "-n", "show", "cluster"], check=False).returncode == 0

    cluster.wait(answers, 30, "slurmdbd answers")
    sacctmgr = ["sacctmgr", "--immediate", "--quiet"]
    portal.run([*sacctmgr, "add", "cluster", "machines"])
    for account in sorted(set(ACCOUNTS.values())):
        portal.run([*sacctmgr, "add", "account", account])
    for user, account in ACCOUNTS.items():
        portal.run([*sacctmgr, "add", "user", user, f"account={account}"])
    first = next(iter(ACCOUNTS.values()))
    portal.run([*sacctmgr, "add", "user", OPERATOR, f"account={first}", "adminlevel=Operator"])
    start(portal, "slurmctld.service")
    start(portal, "slurmrestd.service")


def start(machine: Machine, unit: str) -> None:
    """Enable and start a systemd unit.

    Raises:
        MachineError: the unit did not start; the text has its log.
    """
    done = machine.run(["systemctl", "enable", "--quiet", "--now", unit], check=False)
    if done.returncode:
        log = machine.run(["journalctl", "--no-pager", "-n30", "-u", unit], check=False).stdout
        raise MachineError(f"{unit} of {machine.name} did not start: {done.stderr}\n{log}")
