"""Placement of a running job: the order of its nodes, its costs, and what its ranks are bound to.

An agent reports it. The agent runs as the job's owner, so its report is not trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from aitne.core.models.base import Frozen

MOST_BINDINGS = 4_096
"""Maximum number of ranks in a report."""
_MOST_NODES = 16_384
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,252}$")]
Count = Annotated[int, Field(ge=0, le=1 << 40)]
Index = Annotated[int, Field(ge=0, le=65_536)]


class BoundRank(Frozen):
    """CPUs and devices of one rank."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    rank: Index = Field(description="Number of the rank.")
    node: Name = Field(description="Node that it runs on.")
    cores: str | None = Field(
        None,
        pattern=r"^[0-9,-]{1,400}$",
        description="CPUs that it is bound to, such as `0-3`; null: it is not bound.",
    )
    numa: Index | None = Field(
        None, description="NUMA node of its GPU, or of its CPUs; null: unknown."
    )
    gpu: Index | None = Field(
        None, description="Index of its GPU on the node; null: it has none, or that is unknown."
    )
    nic: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.:-]{1,64}$",
        description="Network interface that is closest to its GPU; null: unknown.",
    )


class ReportedCosts(Frozen):
    """Cost of two orders of the job's nodes, as computed by the agent."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    given: Count
    """Cost of the order in which the scheduler lists the nodes."""
    chosen: Count
    """Cost of the order in which the ranks are numbered."""


class ReportedPlacement(Frozen):
    """Placement as the agent of the first node reports it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    given: tuple[Name, ...] = Field(min_length=1, max_length=_MOST_NODES)
    """Nodes in the order in which the scheduler lists them."""
    order: tuple[Name, ...] = Field(min_length=1, max_length=_MOST_NODES)
    """Nodes in the order in which the ranks are numbered."""
    reason: str = Field(max_length=2_000)
    crossings: ReportedCosts | None = None
    busiest_uplink: ReportedCosts | None = None
    bindings: tuple[BoundRank, ...] = Field(default=(), max_length=MOST_BINDINGS)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        names = set(self.given)
        if len(names) != len(self.given) or len(self.order) != len(names):
            raise ValueError("a node is named twice, or is missing")
        if set(self.order) != names or any(each.node not in names for each in self.bindings):
            raise ValueError("the order has other nodes than the job")
        return self

    def order_nodes(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Return the order of the job's nodes. If the report names other nodes than ``nodes``,
        ``nodes`` is returned unchanged.
        """
        return self.order if set(nodes) == set(self.order) else tuple(nodes)


class PlacementCosts(Frozen):
    """A cost of three orders of the job's nodes."""

    given: int = Field(description="Of the order in which the scheduler lists the nodes.")
    chosen: int = Field(description="Of the order in which the ranks are numbered.")
    best: int = Field(description="Of the best order that is known.")


class PlacementSwitch(Frozen):
    """A switch or block above nodes of the job."""

    name: str = Field(description="Name of the switch or block.")
    parent: str | None = Field(description="Switch above it; null for the root.")


class JobPlacement(Frozen):
    """Nodes of a job in the order of its ranks, the costs of this order, and the bindings."""

    given: tuple[str, ...] = Field(
        description="Nodes in the order in which the scheduler lists them."
    )
    order: tuple[str, ...] = Field(description="Nodes in the order in which ranks are numbered.")
    crossings: PlacementCosts | None = Field(
        description="Pairs of ranks that follow each other and are on different leaves; null: the "
        "topology is not known."
    )
    busiest_uplink: PlacementCosts | None = Field(
        description="Pairs of ranks that send over the busiest uplink in one direction; null: the "
        "topology is not known."
    )
    switches: tuple[PlacementSwitch, ...] = Field(
        description="Switches or blocks above the job's nodes."
    )
    leaves: dict[str, str] = Field(description="Leaf of each node that the topology contains.")
    bindings: tuple[BoundRank, ...] = Field(
        description="What the ranks are bound to, the first 4,096; empty: it is not reported."
    )
    reason: str = Field(description="Why the nodes are in this order, as a sentence.")
