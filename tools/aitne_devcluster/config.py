"""Texts of a cluster's configuration files. The functions only return them and write nothing."""

from __future__ import annotations

from aitne_devcluster.plan import GPU_TYPE, DevClusterPlan
from aitne_train.topology.hostlist import compress_hostlist

CPUS = 8
MEMORY_MB = 16_000
SHARDS_PER_GPU = 4
DEBUG_NODES = 2
SOCKETS = 2
REQUEUE_S = 30
"""Seconds that a requeued job must wait (Slurm's default: 120); also the limit for the launch of a
job.
"""
CLOUD_BOOT_S = 36_000
"""Seconds that nodes may take to boot. Nodes without a slurmd never boot: with this long time their
jobs stay CONFIGURING, and the nodes do not become DOWN.
"""


def make_hostlist(prefix: str, first: int, last: int) -> str:
    """Return a host list in Slurm's format, such as ``n[1-4]``."""
    return compress_hostlist([f"{prefix}{number}" for number in range(first, last + 1)])


def list_shard_nodes(plan: DevClusterPlan) -> list[str]:
    """Return the names of the nodes that also offer shards of their GPUs: the first node at each
    leaf switch.
    """
    first = {nodes[0] for nodes in plan.topology.leaves.values()} if plan.gpus else set()
    return [name for name in plan.node_names if name in first]


def slurm_conf(plan: DevClusterPlan, hostname: str) -> str:
    """Return ``slurm.conf`` (https://slurm.schedmd.com/slurm.conf.html) for every release.

    As at many sites, users see only their own jobs, so a platform needs the account of an operator.
    """
    root, ports = plan.root, plan.ports
    # "cloud" hides nothing: it shows nodes that are powered down.
    private = ("jobs", "usage", "cloud") if plan.cloud_nodes else ("jobs", "usage")
    lines = [
        f"ClusterName={plan.name}",
        f"SlurmctldHost={hostname}(127.0.0.1)",
        f"SlurmctldPort={ports.slurmctld}",
        "SlurmUser=slurm",
        "AuthType=auth/munge",
        f"AuthInfo=socket={plan.munge_socket},cred_expire={REQUEUE_S}",
        "AuthAltTypes=auth/jwt",
        f"AuthAltParameters=jwt_key={plan.jwt_key}",
        "CredType=cred/munge",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        f"StateSaveLocation={root}/state",
        f"SlurmdSpoolDir={root}/spool/%n",
        f"TmpFS={root}/tmp/%n",  # noqa: S108 - below the cluster's folder
        f"SlurmctldPidFile={plan.run}/slurmctld.pid",
        f"SlurmdPidFile={plan.run}/slurmd.%n.pid",
        f"SlurmctldLogFile={plan.log}/slurmctld.log",
        f"SlurmdLogFile={plan.log}/slurmd.%n.log",
        "SlurmctldDebug=info",
        "SlurmdDebug=info",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=5",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        f"TopologyPlugin=topology/{plan.topology.plugin}",
        "GresTypes=gpu,shard",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "JobRequeue=1",
        "MpiDefault=none",
        "MailProg=/bin/true",
        f"PrivateData={','.join(private)}",
        "PriorityType=priority/multifactor",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=sched_min_interval=0,sched_interval=5,bf_interval=2,"
        "batch_sched_delay=0,max_switch_wait=60",
        "MaxJobCount=300000",
        "MaxArraySize=10001",
        "MinJobAge=300",
        "KillWait=2",
        "InactiveLimit=0",
        "MessageTimeout=10",
        "SlurmdTimeout=20",
        "DefMemPerCPU=100",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports.slurmdbd}",
        f"AccountingStoragePass={plan.munge_socket}",
        f"AccountingStorageTRES=gres/gpu,gres/gpu:{GPU_TYPE}",
        "AccountingStorageEnforce=associations,limits,qos",
        "AccountingStoreFlags=job_comment",
        f"NodeName=DEFAULT CPUs={CPUS} Boards=1 Sockets={SOCKETS} CoresPerSocket={CPUS // SOCKETS} "
        f"ThreadsPerCore=1 RealMemory={MEMORY_MB}",
        *_make_node_lines(plan, hostname),
        *_make_partition_lines(plan),
    ]
    return "\n".join(lines) + "\n"


def _make_node_lines(plan: DevClusterPlan, hostname: str) -> list[str]:
    lines = []
    leaf_of = {node: leaf for leaf, nodes in plan.topology.leaves.items() for node in nodes}
    with_shards = list_shard_nodes(plan)
    for port, name in enumerate(plan.node_names, plan.ports.slurmd_first):
        gres = [f"gpu:{GPU_TYPE}:{plan.gpus}"] if plan.gpus else []
        if name in with_shards:
            gres.append(f"shard:{plan.gpus * SHARDS_PER_GPU}")
        offered = f" Gres={','.join(gres)}" if gres else ""
        features = ",".join([GPU_TYPE, *([leaf_of[name]] if name in leaf_of else [])])
        lines.append(
            f"NodeName={name} NodeHostname={hostname} NodeAddr=127.0.0.1 "
            f"Port={port} Feature={features}{offered} State=UNKNOWN"
        )
    if plan.cloud_nodes:
        gres_text = f" Gres=gpu:{GPU_TYPE}:{plan.gpus}" if plan.gpus else ""
        lines = [
            "SuspendProgram=/bin/true",
            "ResumeProgram=/bin/true",
            "SuspendTime=-1",
            f"ResumeTimeout={CLOUD_BOOT_S}",
            *lines,
            f"NodeName={make_hostlist('c', 1, plan.cloud_nodes)} Feature={GPU_TYPE},cloud{gres_text} State=CLOUD",
        ]
    return lines


def _make_partition_lines(plan: DevClusterPlan) -> list[str]:
    everything = make_hostlist("n", 1, plan.nodes)
    few = make_hostlist("n", 1, min(DEBUG_NODES, plan.nodes))
    lines = [
        f"PartitionName=gpu Nodes={everything} Default=YES MaxTime=7-00:00:00 DefaultTime=60 State=UP",
        f"PartitionName=debug Nodes={few} MaxTime=30 DefaultTime=10 PriorityTier=10 State=UP",
    ]
    if plan.cloud_nodes:
        lines.append(
            f"PartitionName=cloud Nodes={make_hostlist('c', 1, plan.cloud_nodes)} "
            "MaxTime=7-00:00:00 DefaultTime=60 State=UP"
        )
    return lines


def gres_conf(plan: DevClusterPlan) -> str:
    """Return ``gres.conf``. GPUs are simulated by character devices without a function; shards are
    parts of these GPUs.
    """
    lines = ["AutoDetect=off"]
    if plan.gpus:
        devices = f"{plan.root}/dev/{make_hostlist('nvidia', 0, plan.gpus - 1)}"
        lines.append(
            f"NodeName={make_hostlist('n', 1, plan.nodes)} Name=gpu Type={GPU_TYPE} File={devices}"
        )
        lines += [
            f"NodeName={name} Name=shard Count={plan.gpus * SHARDS_PER_GPU}"
            for name in list_shard_nodes(plan)
        ]
        if plan.cloud_nodes:
            clouds = make_hostlist("c", 1, plan.cloud_nodes)
            lines.append(f"NodeName={clouds} Name=gpu Type={GPU_TYPE} File={devices}")
    return "\n".join(lines) + "\n"


def cgroup_conf(version: tuple[int, ...]) -> str:
    """Return ``cgroup.conf``, which disables control groups in the syntax of the Slurm release
    ``version``.
    """
    return "CgroupPlugin=disabled\n" if version >= (24, 11) else "CgroupAutomount=no\n"


def slurmdbd_conf(plan: DevClusterPlan) -> str:
    """Return ``slurmdbd.conf``. Only the user ``slurm`` may read the file, because it contains a
    password.
    """
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo={plan.munge_socket}",
        "AuthAltTypes=auth/jwt",
        f"AuthAltParameters=jwt_key={plan.jwt_key}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={plan.ports.slurmdbd}",
        "SlurmUser=slurm",
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",
        "StorageUser=slurm",
        "StoragePass=slurm",
        "StorageLoc=slurm_acct_db",
        f"LogFile={plan.log}/slurmdbd.log",
        f"PidFile={plan.run}/slurmdbd.pid",
        "DebugLevel=info",
    ]
    return "\n".join(lines) + "\n"
