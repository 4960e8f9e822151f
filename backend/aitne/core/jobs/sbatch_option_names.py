"""The names of the options of sbatch, and those that a job file does not contain."""

from __future__ import annotations

from collections.abc import Mapping

SHORT = {
    "A": "account",
    "a": "array",
    "b": "begin",
    "B": "extra-node-info",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "h": "help",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "V": "version",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}

_NO_JOB = "makes sbatch submit nothing: remove it"
_MAIL = "choose your notifications under Account -> Notifications"
_ENV = "a job starts with a clean environment; list its variables in `env`"
_OCI = "name an image: `image`"
_ACCOUNT = "a job runs as the account of the user who submits it"
_CLUSTER = "a platform submits to one cluster"
_CLIENT = "concerns only the command sbatch"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("help", "test-only", "usage", "version"), _NO_JOB),
    "external": "makes a placeholder for a job that Slurm does not run; the platform has none",
}
"""Options of sbatch with which the script describes no job that the platform could run, each with
the reason.
"""

LEFT_OUT: Mapping[str, str] = {
    "bbf": "the file of burst buffer directives is not read",
    "clusters": _CLUSTER,
    "cluster-constraint": _CLUSTER,
    **dict.fromkeys(("container", "container-id", "container-type", "context"), _OCI),
    "deadline": "the platform ends no job that cannot start in time",
    "export-file": _ENV,
    "get-user-env": "a job starts with a clean environment; list in `environment` what it loads",
    "gid": _ACCOUNT,
    "input": "a job's standard input is empty; redirect in `commands`",
    "mem-update": "a job's memory is not changed while it runs",
    "nodefile": "the file is not read; name the nodes in `placement.nodes`",
    "ntasks-per-gpu": "set the number of ranks: `distributed.ranks_per_node`",
    "ntasks-per-tres": "set the number of ranks: `distributed.ranks_per_node`",
    "propagate": "the limits of the submitting shell are not known; call ulimit in `commands`",
    "resources": "`resources` of a job file has CPUs, memory, GPUs and GRES of each node",
    "uid": _ACCOUNT,
    "wrap": "is for the command line; write the command into `commands`",
}
"""Options that are not converted although they affect the execution, each with the reason."""

IGNORED: Mapping[str, str] = {
    **dict.fromkeys(("mail-type", "mail-user"), _MAIL),
    "kill-on-invalid-dep": "the platform cancels a job that depends on a failed one",
    **dict.fromkeys(
        ("autocomplete", "ignore-pbs", "parsable", "quiet", "verbose", "wait"), _CLIENT
    ),
}
"""Options that are not converted and do not affect the execution, each with the reason."""

SITE = frozenset(
    {
        *("acctg-freq", "batch", "bb", "comment", "consolidate-segments", "contiguous"),
        *("core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu", "delay-boot"),
        *("extra", "extra-node-info", "gpu-bind", "gpu-freq"),
        *("gpus-per-socket", "gres-flags", "hint", "mcs-label", "mem-bind", "mincpus", "network"),
        *("no-kill", "ntasks-per-core", "ntasks-per-socket", "oom-kill-step"),
        *("overcommit", "oversubscribe", "power", "prefer", "priority", "profile", "reboot"),
        *("resv-ports", "segment", "sockets-per-node", "spread-job", "spread-segments"),
        *("stepmgr", "thread-spec", "threads-per-core", "tmp", "tres-bind"),
        *("tres-per-task", "use-min-nodes", "wait-all-nodes", "wckey"),
    }
)
"""Options that are copied to ``slurm.extra``; the site decides for each option there whether it is
permitted.
"""

AMOUNTS = frozenset(
    {"nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "mem-per-gpu"}
    | {"gpus", "gpus-per-node", "gpus-per-task", "gres"}
)
LOGS = frozenset({"error", "open-mode", "output"})
NO_VALUE = frozenset(
    {
        *("consolidate-segments", "contiguous", "external", "help", "hold", "ignore-pbs"),
        *("no-requeue", "overcommit", "oversubscribe", "parsable", "quiet", "reboot"),
        *("spread-job", "spread-segments", "stepmgr", "test-only", "usage", "use-min-nodes"),
        *("verbose", "version", "wait"),
    }
)
OPTIONAL_VALUE = frozenset(
    {
        *("exclusive", "get-user-env", "nice", "no-kill", "oom-kill-step", "propagate"),
        *("requeue", "resv-ports"),
    }
)
"""Options whose value is optional and can be given only after ``=``."""
ALIASES = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
"""Alternative names of options, with the name that sbatch documents."""
