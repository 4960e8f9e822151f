"""The order of the hosts on which ranks run, from the topology of the network."""

from __future__ import annotations

import sys

from aitne_train.launcher import hosts, slurm_and_mpi_queries
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.output_relay import print_message
from aitne_train.topology import plain_yaml, slurm, slurm_yaml
from aitne_train.topology.errors import NoSwitchesError, TopologyError
from aitne_train.topology.rank_order import order_ranks
from aitne_train.topology.switch_tree import TopologyTree

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Collection, Mapping, Sequence

    from aitne_train.launcher.hosts import Host
    from aitne_train.topology.rank_order import RankOrder
    from aitne_train.topology.switch_tree import Switch

TOPOLOGY = "AITNE_TOPOLOGY"
"""Variable with the path of a file with the topology."""
FROM_FILE = "file:"
_YAML = (".yaml", ".yml")
_FEWEST = 4
"""Minimum number of hosts whose order matters: rings of three are all alike."""
_MAX_BYTES = 1 << 20


class HostOrder:
    """Order of the hosts of a run.

    Args:
        names: names of the hosts in the order of the ranks.
        reason: reason for this order, without a full stop.
        costs: costs of the given and of the chosen order; None: the order does not result from the
            topology.
        warning: warning for the user, without a full stop; None: there is none.
    """

    def __init__(
        self,
        names: Sequence[str],
        reason: str,
        costs: RankOrder | None = None,
        warning: str | None = None,
    ) -> None:
        self.names = list(names)
        self.reason = reason
        self.costs = costs
        self.warning = warning


def order_hosts(host_list: Sequence[Host], choice: str, environ: Mapping[str, str]) -> list[Host]:
    """Return the hosts in the order in which ranks are numbered, and report a change on standard
    error.

    Args:
        host_list: hosts in the given order.
        choice: ``auto``: the order of the job's host file, else the best order for a ring, if a
            topology is known; ``given``; or ``file:PATH``: the order of the names in a file.
        environ: environment variables of this process.

    Raises:
        LaunchError: the file with the order does not name each host once, or the file in
            ``AITNE_TOPOLOGY`` cannot be read.
    """
    by_name = {host.name: host for host in host_list}
    names = _read_job_order(by_name, environ) if choice == "auto" else None
    if names is None:
        decided = decide_order(list(by_name), choice, environ)
        if decided.warning is not None:
            print_message(decided.warning)
        if decided.costs is not None:
            sys.stderr.write(f"aitne: {decided.costs.describe()}\n")
            sys.stderr.flush()
        names = decided.names
    return [by_name[name] for name in names]


def decide_order(
    names: Sequence[str],
    choice: str,
    environ: Mapping[str, str],
    *,
    mesh: Sequence[int] = (),
    ranks_per_node: int = 1,
    first: str | None = None,
) -> HostOrder:
    """Return the order of the hosts with these names. Nothing is written.

    Args:
        names: names in the given order, each once.
        choice: ``auto``, ``given`` or ``file:PATH``, as in ``order_hosts``.
        environ: environment variables, which name the topology or the Slurm job.
        mesh: sizes of the dimensions of the mesh of ranks, innermost first; empty: one ring.
        ranks_per_node: number of ranks on each host.
        first: host that must be the first; None: any. The order is rotated, which changes no ring.

    Raises:
        LaunchError: as in ``order_hosts``, or the mesh does not have as many ranks as the hosts.
    """
    if choice.startswith(FROM_FILE):
        path = choice[len(FROM_FILE) :]
        chosen = _rotate_hosts(_read_order_file(names, path), first)
        return HostOrder(chosen, f"the order is that of {path}")
    if choice == "given":
        return HostOrder(names, "the given order was requested")
    if len(names) < _FEWEST:
        return HostOrder(names, f"with fewer than {_FEWEST} nodes, no order is better than another")
    try:
        tree = _read_topology(environ)
    except _TopologyUnknownError as error:
        text = f"the order of ranks is the given one, because the topology is not known: {error}"
        return HostOrder(names, text, warning=text)
    if tree is None:
        return HostOrder(names, "the topology of the network is not known")
    by_name = {tree.find_node_name(name) or name: name for name in names}
    if len(by_name) < len(names):
        text = "the order of ranks is the given one: two hosts are the same node of the topology"
        return HostOrder(names, text, warning=text)
    try:
        found = order_ranks(tree, list(by_name), mesh=mesh, ranks_per_node=ranks_per_node)
    except TopologyError as error:
        raise LaunchError(str(error)) from error
    if len(found.unknown) == len(by_name):
        return HostOrder(names, "the topology of the network contains none of the nodes")
    chosen = [by_name[name] for name in found.order]
    if mesh and _rotate_hosts(chosen, first) != chosen:
        # A mesh may have other costs after the rotation.
        text = f"the order is the given one, because {first} must be the first node of the mesh"
        return HostOrder(names, text)
    return HostOrder(_rotate_hosts(chosen, first), found.describe(), found)


def _rotate_hosts(names: list[str], first: str | None) -> list[str]:
    start = 0 if first is None else names.index(first)
    return names[start:] + names[:start]


def _read_job_order(names: Collection[str], environ: Mapping[str, str]) -> list[str] | None:
    """Return the order of the hosts in the job's host file. Return None if there is no host file,
    or it does not contain exactly the hosts ``names``."""
    path = environ.get(hosts.VARIABLE)
    if not path:
        return None
    try:
        listed = [host.name for host in hosts.parse_hostfile(_read_text(path))]
    except LaunchError:
        return None  # it belongs to something else, or is gone: the order is decided anew
    return listed if set(listed) == set(names) and len(listed) == len(names) else None


def _read_order_file(names: Sequence[str], path: str) -> list[str]:
    remaining = dict.fromkeys(names)
    chosen: list[str] = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if words[0] not in remaining or len(words) > 1:
            named = words[0] in chosen
            problem = "names a host again" if named else "is not one of the hosts"
            raise LaunchError(
                f"{path}, line {number}: {line.strip()[:80]!r} {problem}: write each host of the run once, "
                "in a line of its own"
            )
        del remaining[words[0]]
        chosen.append(words[0])
    if remaining:
        raise LaunchError(
            f"{path}: {', '.join(list(remaining)[:8])} {'is' if len(remaining) == 1 else 'are'} missing: "
            "name all hosts of the run, or use the order auto"
        )
    return chosen


class _TopologyUnknownError(Exception):
    """Error: Slurm's topology cannot be read, or is not a tree."""


def _read_topology(environ: Mapping[str, str]) -> TopologyTree | None:
    """Return the topology of the cluster; None if there is none.

    It is read from the file in ``AITNE_TOPOLOGY`` if this variable is set, otherwise from Slurm if
    this process belongs to a Slurm job, otherwise from Slurm's configuration.

    Raises:
        LaunchError: the file in ``AITNE_TOPOLOGY`` cannot be used.
        _TopologyUnknownError: Slurm's topology cannot be used.
    """
    path = environ.get(TOPOLOGY)
    if path:
        try:
            return TopologyTree(_read_topology_file(path))
        except NoSwitchesError:
            return None
        except TopologyError as error:
            raise LaunchError(f"{error} The file is named by {TOPOLOGY}") from error
    try:
        if "SLURM_JOB_ID" in environ:
            switches = slurm.parse_shown_topology(slurm_and_mpi_queries.query_topology(environ))
            return TopologyTree(switches) if switches else None
        path = slurm_and_mpi_queries.find_topology_file(environ)
        return None if path is None else TopologyTree(_read_topology_file(path))
    except NoSwitchesError:
        return None
    except (LaunchError, TopologyError) as error:
        raise _TopologyUnknownError(str(error)) from error


def _read_topology_file(path: str) -> list[Switch]:
    text = _read_text(path)
    if path.endswith(_YAML):
        return slurm_yaml.parse_topology_yaml(plain_yaml.parse_yaml(text, path), path)
    if "BlockIndex=" in text or " Level=" in text:
        return slurm.parse_shown_topology(text, path)
    return slurm.parse_conf(text, path)


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{path} cannot be read: {error}") from error
    if len(text) > _MAX_BYTES:
        raise LaunchError(f"{path} has more than {_MAX_BYTES >> 20} MiB: give another file")
    return text
