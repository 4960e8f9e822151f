"""Slurm's pending reasons as sentences (https://slurm.schedmd.com/job_reason_codes.html)."""

from __future__ import annotations

import re

_PLAIN = {
    "Resources": "Waits for nodes to become free.",
    "Priority": "Waits behind jobs of higher priority.",
    "Dependency": "Waits for another job to complete.",
    "DependencyNeverSatisfied": "Waits for a job that did not complete, so it can never start.",
    "BeginTime": "Waits for the time before which it may not start.",
    "Cleaning": "Waits until its previous run has been cleaned up.",
    "Reservation": "Waits for its reservation to begin.",
    "ReservationDeleted": "Is held: its reservation was deleted.",
    "Licenses": "Waits for a licence.",
    "Prolog": "Its nodes are being prepared.",
    "JobArrayTaskLimit": "Waits for its array: no more tasks of it may run at once.",
    "JobHeldUser": "Held by its owner. It can start after it is released.",
    "JobHeldAdmin": "Is held by an administrator; ask the site's support.",
    "JobHoldMaxRequeue": "Is held: it was started again too often; ask the site's support.",
    "InvalidAccount": "The job's owner may not use the Slurm account of this project.",
    "InvalidQOS": "Its QOS does not exist or is not open to its owner.",
    "QOSNotAllowed": "Its QOS is not allowed in its partition or project.",
    "AccountNotAllowed": "Its project may not use its partition.",
    "QOSUsageThreshold": "Its project has used up what its QOS allows for now.",
    "QOSTimeLimit": "Asks for more time than its QOS allows.",
    "QOSJobLimit": "Waits: no more jobs of its QOS may run at once.",
    "QOSResourceLimit": "Waits: its QOS has reached a limit.",
    "AssociationJobLimit": "Waits: no more jobs of its project may run at once.",
    "AssociationResourceLimit": "Waits: its project has reached a limit.",
    "AssociationTimeLimit": "Asks for more time than its project allows.",
    "AccountingPolicy": "Waits: a limit of its project or QOS is reached.",
    "PartitionDown": "The partition is down and starts no jobs.",
    "PartitionInactive": "Its partition starts no jobs at the moment.",
    "PartitionNodeLimit": "Asks for a number of nodes that its partition does not allow.",
    "PartitionTimeLimit": "Asks for more time than its partition allows.",
    "PartitionConfig": "Asks for more than its partition has.",
    "NodeDown": "A node that it needs is down.",
    "FrontEndDown": "The node that would start it is down.",
    "ReqNodeNotAvail": "Nodes that it needs are down, drained or reserved.",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "Nodes that it needs are down, drained or reserved for jobs of higher priority."
    ),
    "Constraints": "Waits for nodes with the features that it asks for.",
    "BadConstraints": "No node fulfils what it asks for.",
    "MaxMemPerLimit": "Requests more memory than the partition allows.",
    "NodeAllocationFailed": "Its nodes could not be allocated; Slurm tries again.",
    "SchedDefer": "Waits for the scheduler's next round.",
    "WaitingForScheduling": "Waits for the scheduler's next round.",
    "None": "Waits for the scheduler's next round.",
    "BurstBufferResources": "Waits for space in the burst buffer.",
    "BurstBufferStageIn": "Its data are being copied in.",
    "SystemFailure": "Slurm or a file system failed during its start.",
    "JobLaunchFailure": "It could not be started on its node.",
    "launch failed requeued held": (
        "Is held: its node could not start it (a file system or a set-up that fails there). Ask the "
        "site's support."
    ),
    "job requeued in held state": "Is held after a requeue; ask the site's support.",
    "DeadLine": "Could not start before its deadline.",
    "FedJobLock": "Waits for another cluster of the federation.",
}
_LIMIT = re.compile(
    r"(?P<whose>Assoc|QOS|)(?P<kind>Grp|Max|Min)(?P<submit>Submit)?"
    r"(?P<what>Jobs?|Wall(?:Duration)?|CPU|Cpu|GRES|Mem(?:ory)?|Node|BB|Billing|Energy|Licenses?|Unknown)"
    r"(?P<minutes>Run)?(?P<total>Minutes)?"
    r"(?:Per(?P<per>Job|User|Account|Node))?(?:Limit|NotSatisfied)?"
)
_WHAT = {
    "job": "jobs",
    "jobs": "jobs",
    "wall": "time",
    "wallduration": "time",
    "cpu": "CPUs",
    "gres": "GPUs or other generic resources",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "bb": "burst buffer",
    "billing": "billing units",
    "energy": "energy",
    "license": "licences",
    "licenses": "licences",
    "unknown": "a resource",
}
_PER = {
    "Job": " by one job",
    "User": " by one user",
    "Account": " by one project",
    "Node": " on one node",
}
_UNFULFILLED = re.compile(r"[a-z]+:([0-9]+(?:_(?:[0-9]+|\*))?)(?:\+[0-9]+)?\((?:unfulfilled)\)")


def format_pending_reason(reason: str, dependency: str = "") -> str:
    """Convert Slurm's pending reason to a sentence for the job's owner. An unknown reason is
    returned unchanged.

    ``dependency`` are the job's unfulfilled dependencies, as squeue prints them.
    """
    word = reason.strip().removeprefix("(").removesuffix(")")
    # There is no reason until the scheduler has considered the job for the first time.
    if word in ("Dependency", "None") and (jobs := _UNFULFILLED.findall(dependency)):
        names = [job.removesuffix("_*") for job in dict.fromkeys(jobs)]
        return f"Waits for job{'s' if len(names) > 1 else ''} {', '.join(names)} to complete."
    if word in _PLAIN:
        return _PLAIN[word]
    head, comma, rest = word.partition(",")
    if comma and head in _PLAIN:  # ReqNodeNotAvail, UnavailableNodes:n[1-2]
        nodes = re.search(r"UnavailableNodes:([A-Za-z0-9_.,\[\]-]+)", rest)
        return _PLAIN[head] if nodes is None else f"{_PLAIN[head][:-1]}: {nodes[1]}."
    if (match := _LIMIT.fullmatch(word)) is not None:
        return _format_limit_reason(match)
    return f"Waits; Slurm says: {word}." if word else _PLAIN["None"]


def _format_limit_reason(match: re.Match[str]) -> str:
    whose = {"Assoc": "its project", "QOS": "its QOS", "": "its project"}[match["whose"]]
    what = _WHAT[match["what"].lower()]
    per = _PER[match["per"]] if match["per"] else ""
    if match["submit"]:
        return f"Waits: {whose} has reached its limit of jobs in the queue{per}."
    if match["total"]:
        what = f"{what} multiplied by time"
    if match["kind"] == "Min":
        return f"Asks for less ({what}) than {whose} demands."
    if match["kind"] == "Grp":
        return f"Waits: {whose} has reached its limit of {what} in use."
    if match["per"] in ("Job", "Node"):
        return f"Asks for more ({what}{per}) than {whose} allows."
    return f"Waits: {whose} has reached its limit of {what} in use{per}."
