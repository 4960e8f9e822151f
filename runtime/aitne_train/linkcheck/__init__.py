"""Measurement of the network links between ranks before a run, with warnings about slow links.

``AITNE_LINK_CHECK=1`` enables it in ``init``; ``aitne-run ... aitne-train linkcheck``
runs only the measurement, and exits with 1 if a link is slow. Pairs of ranks exchange data in
rounds over the transport that the run will use, then all ranks at once, as in a ring. A link that
seems slow is measured again while all others are idle. The measurement takes at most 30 s: pairs
that would take longer are omitted, which the report states.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch

from aitne_train import transport_choice
from aitne_train.collective_request import Kind, Request
from aitne_train.context import Context
from aitne_train.errors import HorovodInternalError
from aitne_train.functions import allgather_object
from aitne_train.slow_link_detection import (
    Pair,
    RankLink,
    compute_medians,
    find_slow_links,
    is_within_node,
    schedule_pairs,
)
from aitne_train.transport.base import Group, Reduction, Transport, TransportError

BUDGET_S = 30.0
_SHARE = 0.6
"""Fraction of the total time that the first measurements may take; the rest is for repetitions."""
_PROBE_BYTES = 1 << 20
_BYTES = 8 << 20
_PAIR_S = 0.2
"""Approximate time for the bandwidth measurement of one pair of ranks, in seconds."""
_SMALL_REPEATS = 20

Connect: TypeAlias = Callable[[Group, str], Transport]


@dataclass(frozen=True)
class LinkReport:
    """Result of measuring the links between ranks. It is equal on all ranks."""

    links: tuple[RankLink, ...]
    """All measured links."""
    slow: tuple[RankLink, ...]
    """Links that are much slower than others of the same kind, slowest first."""
    left_out: int
    """Number of pairs of ranks that were not measured for lack of time."""
    ring_bytes_per_s: float
    """Bus bandwidth of an allreduce among all ranks, in bytes per second."""
    took_s: float
    """Duration of the measurement in seconds."""


def connect_group(group: Group, device: str) -> Transport:
    """Connect the ranks of ``group`` by the transport that the run would use between them, and
    return it.
    """
    chosen = transport_choice.choose_transport(
        group.nodes, device, os.environ.get("AITNE_TRANSPORT", "auto")
    )
    return chosen.connect(group, device)


def check_links(
    here: Context, connecting: Connect = connect_group, budget_s: float = BUDGET_S
) -> LinkReport:
    """Measure the links between ranks, for at most ``budget_s`` seconds, and return the report.
    Every rank must call this. ``connecting`` is the function that connects the ranks of a group.

    Raises:
        HorovodInternalError: two ranks cannot exchange data; the message names them.
    """
    began = time.monotonic()
    device = _choose_device(here)
    meter = _Meter(here, connecting, device, began)
    local_links: dict[Pair, RankLink] = {}
    pairs = schedule_pairs(here.nodes)
    for number, pairs_of_round in enumerate(pairs):
        _connect_all(here)
        own_pair = next((pair for pair in pairs_of_round if here.world.rank in pair), None)
        if own_pair is not None and (
            link := meter.measure_pair(own_pair, f"{number}", budget_s * _SHARE)
        ):
            local_links[own_pair] = link
    links = _gather_links(local_links)
    for number, suspect in enumerate(find_slow_links(list(links.values()), here.nodes)):
        _connect_all(here)
        if here.world.rank in suspect.ranks:
            again = meter.measure_pair(suspect.ranks, f"again{number}", budget_s)
            if again is not None and again.bytes_per_s > suspect.bytes_per_s:
                local_links[suspect.ranks] = again
    links = _gather_links(local_links)
    _connect_all(here)
    ring = meter.measure_ring()
    ordered = tuple(links[pair] for pair in sorted(links))
    return LinkReport(
        links=ordered,
        slow=tuple(find_slow_links(ordered, here.nodes)),
        left_out=sum(map(len, pairs)) - len(links),
        ring_bytes_per_s=ring,
        took_s=time.monotonic() - began,
    )


def format_report(report: LinkReport, nodes: tuple[int, ...]) -> str:
    """Return the report as text for users, with the warnings about slow links first. ``nodes``
    contains the number of each rank's node.
    """
    middle = compute_medians(report.links, nodes)
    lines = [
        f"slow link between rank {a} (node {nodes[a]}) and rank {b} (node {nodes[b]}):"
        f" {_format_rate(link.bytes_per_s)},"
        f" {link.bytes_per_s / middle[is_within_node(link.ranks, nodes)] * 100:.0f} % of the median of"
        f" {_format_rate(middle[is_within_node(link.ranks, nodes)])}"
        for link in report.slow
        for a, b in [link.ranks]
    ]
    for kind, words in ((True, "within nodes"), (False, "between nodes")):
        of_kind = [link for link in report.links if is_within_node(link.ranks, nodes) is kind]
        if of_kind:
            delay = statistics.median(link.latency_s for link in of_kind)
            count = f"{len(of_kind)} link{'s' if len(of_kind) > 1 else ''} {words}"
            lines.append(f"{count}: median {_format_rate(middle[kind])}, {delay * 1e6:.0f} µs")
    if report.links:
        lines.append(f"all ranks at once: {_format_rate(report.ring_bytes_per_s)}")
    if report.left_out:
        lines.append(f"{report.left_out} links were not measured for lack of time")
    return "\n".join(f"aitne: {line}" for line in lines)


def check_at_start(here: Context) -> None:
    """Measure the links and print the report on rank 0. ``init`` calls this if
    ``AITNE_LINK_CHECK=1``.
    """
    report = check_links(here)
    if here.world.rank == 0:
        sys.stderr.write(format_report(report, here.nodes) + "\n")


class _Meter:
    """Measurement of the links between this rank and others."""

    def __init__(self, here: Context, connecting: Connect, device: str, began: float) -> None:
        self._here = here
        self._connecting = connecting
        self._device = device
        self._began = began

    def measure_pair(self, pair: Pair, name: str, until_s: float) -> RankLink | None:
        """Measure the link between the two ranks of ``pair``, one of which is this rank; return
        None if ``until_s`` seconds after the start of the check are over. ``name`` must be new for
        each measurement.
        """
        transport = self._connect_pair(f"{name}.{pair[0]}.{pair[1]}", pair)
        try:
            latency_s = self._agree_on_maximum(
                transport, statistics.median(self._time_allreduces(transport, 4, _SMALL_REPEATS))
            )
            if self._agree_on_maximum(transport, time.monotonic() - self._began) > until_s:
                return None
            return RankLink(pair, self._measure_bandwidth(transport), latency_s)
        except TransportError as error:
            raise self._describe_broken_link(pair, error) from error
        finally:
            transport.close()

    def measure_ring(self) -> float:
        """Measure an allreduce among all ranks; return its bus bandwidth in bytes per second."""
        all_ranks = tuple(range(self._here.world.size))
        transport = self._connect_pair("ring", all_ranks)
        try:
            return self._measure_bandwidth(transport) * 2 * (len(all_ranks) - 1) / len(all_ranks)
        except TransportError as error:
            raise self._describe_broken_link(all_ranks, error) from error
        finally:
            transport.close()

    def _connect_pair(self, name: str, ranks: tuple[int, ...]) -> Transport:
        here = self._here
        group = Group(
            f"{here.prefix}/links/{name}",
            ranks.index(here.world.rank),
            ranks,
            tuple(here.nodes[rank] for rank in ranks),
            here.store,
            timeout_s=BUDGET_S,
        )
        try:
            return self._connecting(group, self._device)
        except TransportError as error:
            raise self._describe_broken_link(ranks, error) from error

    def _measure_bandwidth(self, transport: Transport) -> float:
        """Return the bandwidth of an allreduce in bytes per second, the same value on all members."""
        (probe_s,) = self._time_allreduces(transport, _PROBE_BYTES, 1)
        probe_s = self._agree_on_maximum(transport, probe_s)
        whole_s = probe_s * _BYTES / _PROBE_BYTES
        nbytes = _BYTES if whole_s <= _PAIR_S else _PROBE_BYTES
        once_s = max(probe_s * nbytes / _PROBE_BYTES, 1e-6)
        repeats = max(1, min(9, int(_PAIR_S / once_s)))
        times = self._time_allreduces(transport, nbytes, repeats)
        return nbytes / self._agree_on_maximum(transport, statistics.median(times))

    def _time_allreduces(self, transport: Transport, nbytes: int, repeats: int) -> list[float]:
        flat = torch.zeros(nbytes // 4, dtype=torch.float32, device=self._device)
        times = []
        for number in range(repeats + 1):
            begun = time.perf_counter()
            transport.allreduce(flat, Reduction.SUM)
            if self._device == "cuda":
                torch.cuda.synchronize()
            if number:  # the first one touches unused memory
                times.append(time.perf_counter() - begun)
        return times

    def _agree_on_maximum(self, transport: Transport, seconds: float) -> float:
        """Return the maximum of the members' values of ``seconds``, so that all members decide
        equally.
        """
        maximum = torch.tensor([seconds], dtype=torch.float64, device=self._device)
        transport.allreduce(maximum, Reduction.MAX)
        return float(maximum)

    def _describe_broken_link(
        self, ranks: tuple[int, ...], error: TransportError
    ) -> HorovodInternalError:
        between = " and ".join(f"{rank} (node {self._here.nodes[rank]})" for rank in ranks[:8])
        return HorovodInternalError(f"ranks {between} cannot exchange: {error}")


def _connect_all(here: Context) -> None:
    here.engine.run(Request(Kind.BARRIER, "aitne.linkcheck", ()))


def _gather_links(local_links: Mapping[Pair, RankLink]) -> dict[Pair, RankLink]:
    """Return the measured links of all ranks by pair; both ranks of a pair have the same values.
    Every rank must call this.
    """
    gathered = allgather_object(dict(local_links), "aitne.linkcheck")
    return {pair: link for part in gathered for pair, link in part.items()}


def _choose_device(here: Context) -> str:
    """Return ``cuda`` if every rank has a GPU of its own, otherwise ``cpu``.

    With ``cuda``, this rank's GPU becomes the current device.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = here.world.local_rank if count >= here.world.local_size else 0
    gpu = str(torch.cuda.get_device_properties(index).uuid) if count else None
    gpus = allgather_object(gpu, "aitne.linkcheck.gpu")
    if gpu is None or None in gpus or len(set(gpus)) < len(gpus):
        return "cpu"
    torch.cuda.set_device(index)
    return "cuda"


def _format_rate(bytes_per_s: float) -> str:
    if bytes_per_s >= 1e9:
        return f"{bytes_per_s / 1e9:.2f} GB/s"
    return f"{bytes_per_s / 1e6:.1f} MB/s"
