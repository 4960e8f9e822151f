"""Templates and nodes on the command line."""

from __future__ import annotations

from tests.support.fake_api import FakeApi
from tests.unit.cli.conftest import Aitne


def test_templates_and_nodes(aitne: Aitne, api: FakeApi) -> None:
    template = {"name": "batch", "version": "1.0.0", "type": "job", "title": "Batch job"}
    node = {
        "name": "node01",
        "state": "idle",
        "cpu_total": 2,
        "cpu_used": 0,
        "memory_total_bytes": 1 << 34,
        "memory_used_bytes": 0,
        "gpus": [{"type": "a100", "total": 4, "used": 1}],
    }
    problem = {"path": "/site/x.yaml", "line": 3, "reason": "colour is not known"}
    api.on("GET", "/templates", {"items": [template], "problems": [problem]})
    api.on("GET", "/templates/batch", template)
    api.on("GET", "/cluster/nodes", {"items": [node], "as_of": None, "stale": False})
    assert "Batch job" in aitne("template", "ls").out
    as_json = aitne("template", "ls", "--json")
    assert as_json.json == [template]
    assert as_json.err == "Rejected /site/x.yaml:3: colour is not known\n"
    assert "batch 1.0.0" in aitne("template", "show", "batch").out
    assert "a100 1/4" in aitne("node", "ls").out
