"""The agent's description of its node."""

from __future__ import annotations

from pathlib import Path

from aitne.agent import node_description, reporter
from aitne.agent.program_supervisor import Programs
from aitne.core.models.reported_node import ReportedNode
from tests.support.topologies import sysfs


def test_a_description_of_a_node_is_what_the_platform_reads(tmp_path: Path) -> None:
    described = node_description.describe_node(Programs(), str(sysfs(tmp_path / "sys")))
    facts = {"boot_id": reporter.boot_id(), "python": reporter.PYTHON, **described}
    assert ReportedNode.model_validate(facts).numa_nodes
