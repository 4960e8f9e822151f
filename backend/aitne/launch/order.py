"""The order of the hosts on which ranks run, from the topology of the network."""

from __future__ import annotations

import os
import sys

from aitne.launch import scheduler
from aitne.launch.errors import LaunchError
from aitne.launch.output import say
from aitne.topology import slurm
from aitne.topology.errors import TopologyError
from aitne.topology.order import rank_order
from aitne.topology.tree import TopologyTree

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne.launch.hosts import Host
    from aitne.topology.tree import Switch

TOPOLOGY = "AITNE_TOPOLOGY"
"""Variable with the path of a file with the topology."""
FROM_FILE = "file:"
_OF_SLURM = "/etc/slurm/topology.conf"
_FEWEST = 4
"""Minimum number of hosts whose order matters: rings of three are all alike."""
_MAX_BYTES = 1 << 20


def ordered(host_list: Sequence[Host], choice: str, environ: Mapping[str, str]) -> list[Host]:
    """Return the hosts in the order in which ranks are numbered, and report a change on standard
    error.

    Args:
        host_list: hosts in the given order.
        choice: ``auto``: the best order for a ring, if a topology is known; ``given``; or
            ``file:PATH``: the order of the names in a file.
        environ: environment variables of this process.

    Raises:
        LaunchError: the file with the order does not name each host once, or the file in
            ``AITNE_TOPOLOGY`` cannot be read.
    """
    if choice.startswith(FROM_FILE):
        return _from_file(host_list, choice[len(FROM_FILE) :])
    if choice == "given" or len(host_list) < _FEWEST:
        return list(host_list)
    tree = _topology(environ)
    if tree is None:
        return list(host_list)
    by_name = {_name(host, tree): host for host in host_list}
    if len(by_name) < len(host_list):
        say("the order of ranks is the given one: two hosts are the same node of the topology")
        return list(host_list)
    order = rank_order(tree, list(by_name))
    if len(order.unknown) < len(by_name):
        sys.stderr.write(f"aitne: {order.sentence()}\n")
        sys.stderr.flush()
    return [by_name[name] for name in order.order]


def _name(host: Host, tree: TopologyTree) -> str:
    """Return the name of a host in the topology, which may be without the domain."""
    short = host.name.partition(".")[0]
    return short if host.name not in tree.leaf_of and short in tree.leaf_of else host.name


def _from_file(host_list: Sequence[Host], path: str) -> list[Host]:
    remaining = {host.name: host for host in host_list}
    chosen: list[Host] = []
    for number, line in enumerate(_text(path).splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        host = remaining.pop(words[0], None)
        if host is None or len(words) > 1:
            named = any(words[0] == earlier.name for earlier in chosen)
            problem = "names a host again" if named else "is not one of the hosts"
            raise LaunchError(
                f"{path}, line {number}: {line.strip()[:80]!r} {problem}: write each host of the run once, "
                "in a line of its own"
            )
        chosen.append(host)
    if remaining:
        raise LaunchError(
            f"{path}: {', '.join(list(remaining)[:8])} {'is' if len(remaining) == 1 else 'are'} missing: "
            "name all hosts of the run, or use --order auto"
        )
    return chosen


def _topology(environ: Mapping[str, str]) -> TopologyTree | None:
    """Return the topology in the file that ``AITNE_TOPOLOGY`` names, else that of the Slurm cluster
    of this job, else that in Slurm's file; None if there is none."""
    path = environ.get(TOPOLOGY)
    if path:
        try:
            return TopologyTree(_read(path))
        except TopologyError as error:
            raise LaunchError(f"{error} The file is named by {TOPOLOGY}") from error
    try:
        if "SLURM_JOB_ID" in environ:
            switches = slurm.read_shown(scheduler.topology())
            return TopologyTree(switches) if switches else None
        return TopologyTree(_read(_OF_SLURM)) if os.path.isfile(_OF_SLURM) else None
    except (LaunchError, TopologyError) as error:
        say(f"the order of ranks is the given one, because the topology is not known: {error}")
        return None


def _read(path: str) -> list[Switch]:
    text = _text(path)
    if "BlockIndex=" in text or " Level=" in text:
        return slurm.read_shown(text, path)
    return slurm.read_conf(text, path)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(_MAX_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{path} cannot be read: {error}") from error
    if len(text) > _MAX_BYTES:
        raise LaunchError(f"{path} has more than {_MAX_BYTES >> 20} MiB: give another file")
    return text
