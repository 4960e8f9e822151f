"""Placement of a job: on which nodes it runs, and how its ranks are ordered and bound there."""

from __future__ import annotations

import re
from enum import StrEnum
from math import prod
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from aitne.core.models.base import Frozen, Seconds, Strict, check_passable, convert_off
from aitne_train.topology.hostlist import MAX_HOSTS, expand_hostlist

FROM_FILE = "file:"
"""Beginning of an order that is read from a file."""
NODE_LIST = r"^[A-Za-z0-9][A-Za-z0-9_.,\[\]-]{0,1999}$"
NodeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$")]
_ORDER = r"^(?:auto|given|file:(?:/|~/)[^\x00-\x1f\x7f]+)$"
_MOST_LISTS = 1_000


class Compact(StrEnum):
    """Wait of a job for nodes on the fewest leaves that can hold it."""

    OFF = "off"
    PREFER = "prefer"
    REQUIRE = "require"


class RankBinding(StrEnum):
    """Binding of the processes of a rank."""

    AUTO = "auto"
    CORES = "cores"
    OFF = "off"


def _wrap_in_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _check_order(value: str) -> str:
    if not re.fullmatch(_ORDER, value):
        raise ValueError("must be auto, given or file:PATH, with a path from / or ~/")
    return check_passable(value)


def _check_node_list(value: str) -> str:
    if not re.fullmatch(NODE_LIST, value):
        raise ValueError("must be a host list without spaces, such as gpu[03-05],gpu07")
    return value


class MeshSpec(Strict):
    """Sizes of the mesh of a job's ranks, the innermost dimension first."""

    tensor: int = Field(1, strict=True, ge=1, le=65_536, description="Size of tensor parallelism.")
    pipeline: int = Field(
        1, strict=True, ge=1, le=65_536, description="Size of pipeline parallelism."
    )
    data: int = Field(1, strict=True, ge=1, le=65_536, description="Size of data parallelism.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions, the innermost first."""
        return self.tensor, self.pipeline, self.data

    @property
    def rank_count(self) -> int:
        """Number of ranks of the mesh."""
        return prod(self.sizes)


NodeLists = Annotated[
    tuple[
        Annotated[
            str, Field(json_schema_extra={"pattern": NODE_LIST}), AfterValidator(_check_node_list)
        ],
        ...,
    ],
    BeforeValidator(_wrap_in_list, json_schema_input_type=list[str] | str),
    Field(max_length=_MOST_LISTS),
]


class PlacementSpec(Strict):
    """Content of ``placement`` in a job file."""

    compact: Annotated[Compact, BeforeValidator(convert_off)] = Field(
        Compact.OFF,
        description="prefer: wait for nodes on the fewest leaves that can hold the job, for the time in "
        "wait, 5 minutes if omitted; then start on any nodes. require: wait without a limit, if wait is "
        "omitted; Slurm ends the wait after max_switch_wait. off: do not wait.",
    )
    wait: Annotated[Seconds | None, Field(examples=["10m"])] = Field(
        None, description="Longest wait for the fewest leaves, in seconds or such as 10m."
    )
    order: Annotated[
        str,
        Field(
            max_length=4_096, examples=["file:~/order.txt"], json_schema_extra={"pattern": _ORDER}
        ),
        AfterValidator(_check_order),
    ] = Field(
        "auto",
        description="Order of the nodes in which ranks are numbered. auto: the order with the least "
        "traffic between leaves, if the topology is known; given: the scheduler's; file:PATH: that of a "
        "file with one node in each line, absolute or ~/...",
    )
    mesh: MeshSpec | None = Field(
        None,
        description="Mesh of the ranks, for which the order is computed. Omitted: one ring of all ranks.",
    )
    nodes: NodeLists = Field(
        (), description="Nodes that it must run on, such as gpu[03-05]; others are added if needed."
    )
    exclude: NodeLists = Field(
        (), description="Nodes that it must not run on, such as gpu07 or gpu[07-09]."
    )
    bind: Annotated[RankBinding, BeforeValidator(convert_off)] = Field(
        RankBinding.AUTO,
        description="What ranks are bound to. auto: the cores of the NUMA node of the rank's GPU, else an "
        "even part of the job's cores; cores: an even part of the job's cores; off: nothing.",
    )

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes that the job must run on."""
        return expand_node_lists(self.nodes)

    @property
    def excluded_names(self) -> tuple[str, ...]:
        """Names of the nodes that the job must not run on."""
        return expand_node_lists(self.exclude)

    @field_validator("nodes", "exclude")
    @classmethod
    def _named_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        seen: set[str] = set()
        for name in expand_node_lists(value):
            if name in seen:
                raise ValueError(f"the node {name} is named twice: name each node once")
            seen.add(name)
        return value

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        both = sorted(set(self.node_names) & set(self.excluded_names))
        if both:
            raise ValueError(
                f"the node {both[0]} is in nodes and in exclude: remove it from one of the two"
            )
        if self.wait is not None and self.compact is Compact.OFF:
            raise ValueError("wait has no effect without compact: set compact to prefer or require")
        return self


class LeafLimit(Frozen):
    """Number of leaves on which a job is to run: the fewest that can hold it."""

    count: int = Field(ge=1)
    """Maximum number of leaves."""
    wait_s: int | None = Field(None, ge=0)
    """Time in seconds for which the job waits for that; None: as long as the scheduler permits."""


class LeafUse(Frozen):
    """Nodes that a job uses on one leaf."""

    name: str = Field(description="Name of the switch or block.")
    nodes: int = Field(description="Number of the job's nodes on it.")


class PlannedCost(Frozen):
    """One cost of the rank order: in the scheduler's order, and in the order of the job."""

    given: int = Field(description="In the scheduler's order of the nodes.")
    chosen: int | None = Field(None, description="Null: the order is read from a file on the node.")


class PlacementAlternative(Frozen):
    """Other leaves that could hold a job."""

    leaves: tuple[LeafUse, ...] = Field(description="Leaves with the nodes that are used there.")
    wait_s: float = Field(0.0, description="Wait for the last of the nodes.")
    score: float = Field(description="Uplinks, fragmentation and wait; less is better.")


class PlacementPlan(Frozen):
    """Nodes on which a job would run if it started now, and the order of its ranks on them. The
    scheduler may choose others.
    """

    nodes: tuple[str, ...] = Field((), description="Empty: too few nodes are free.")
    leaves: tuple[LeafUse, ...] = Field((), description="Leaves of these nodes.")
    order: tuple[str, ...] = Field(
        (), description="Nodes in the order in which ranks are numbered; empty: unknown."
    )
    crossings: PlannedCost | None = Field(
        None, description="Consecutive ranks on different leaves; null without nodes."
    )
    busiest_uplink: PlannedCost | None = Field(
        None, description="Pairs of ranks that share the busiest uplink; null without nodes."
    )
    score: float | None = Field(
        None, description="Uplinks, fragmentation and wait, which the choice keeps low."
    )
    max_leaves: int | None = Field(
        None, description="Number of leaves that the job waits for; null: any."
    )
    max_leaves_wait_s: int | None = Field(
        None, description="How long it waits for them, in seconds; null: without a limit."
    )
    reason: str = Field(description="Why these nodes, or what is missing, as a sentence.")
    alternatives: tuple[PlacementAlternative, ...] = Field(
        (), description="The next best leaves, the best first."
    )
    changes: tuple[str, ...] = Field(
        (), description="Changes of the request with which it would fit."
    )


def expand_node_lists(lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in several host lists, in their order. Raises ``ValueError`` if a list cannot
    be read, or has too many names.
    """
    names: list[str] = []
    for text in lists:
        names += expand_hostlist(text)
        if len(names) > MAX_HOSTS:
            raise ValueError(f"more than {MAX_HOSTS} nodes are refused")
    return tuple(names)
