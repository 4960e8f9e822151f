"""Nodes and partitions, and what administrators do with them."""

from __future__ import annotations

from tests.support.fake_api import FakeApi
from tests.unit.cli.conftest import Aitne


def test_an_administrator_drains_nodes_after_saying_yes(aitne: Aitne, api: FakeApi) -> None:
    node = {"name": "gpu01", "state": "idle", "gpus": [], "partitions": ["gpu"], "features": []}
    api.on("GET", "/cluster/nodes", {"items": [node], "as_of": None, "stale": False})
    api.on("POST", "/cluster/nodes/gpu01/drain", node)
    api.on("POST", "/cluster/nodes/gpu01/resume", node)
    refused = aitne("admin", "node", "drain", "gpu01", "--reason", "fans")
    assert refused.status == 2
    assert "--yes" in refused.err
    assert not api.sent("POST", "/cluster/nodes/gpu01/drain")
    done = aitne("admin", "node", "drain", "gpu01", "--reason", "fans", "--yes", "--json")
    assert (done.status, done.json) == (0, [node])
    assert api.sent("POST", "/cluster/nodes/gpu01/drain")[0].json == {"reason": "fans"}
    assert "new jobs may start" in aitne("admin", "node", "resume", "gpu01", "--yes").err


def test_partitions_show_their_limits(aitne: Aitne, api: FakeApi) -> None:
    gpu = {"type": "a100", "total": 8, "used": 1, "free": 7}
    part = {
        "name": "gpu",
        "default": True,
        "up": True,
        "nodes": "gpu[01-02]",
        "node_count": 2,
        "cpu_total": 16,
        "cpu_used": 2,
        "gpus": [gpu],
        "max_time_s": 604_800,
    }
    api.on("GET", "/cluster/partitions", {"items": [part]})
    assert "a100 7/8" in (shown := aitne("node", "partitions").out)
    assert "gpu*" in shown
    assert aitne("node", "partitions", "--json").json == [part]
