"""Grafana's dashboards: their form, and each query in a real Prometheus that has data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.metric_samples import JOB, NOW, SERIES, openmetrics
from tests.support.prometheus import ask, prometheus_with

GRAFANA = Path(__file__).resolve().parents[3] / "monitoring" / "grafana"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in GRAFANA.glob("dashboards/*.json")}
PANEL_TYPES = {"timeseries", "stat", "table", "bargauge", "row"}


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels with queries."""
    return (panel for panel in dashboard["panels"] if panel["type"] != "row")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_with(tmp_path_factory.mktemp("prometheus"), openmetrics()) as url:
        yield url


def _expression(text: str) -> str:
    """Return a query with its variables replaced, as Grafana sends it."""
    for variable, value in (("$__rate_interval", "4m"), ("$jobid", "5f0c|91ab")):
        text = text.replace(variable, value)
    assert "$" not in text, text
    return text


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_query_of_a_dashboard_returns_data(prometheus: str, name: str) -> None:
    empty = []
    for panel in panels(DASHBOARDS[name]):
        for target in panel["targets"]:
            found = ask(prometheus, "query", query=_expression(target["expr"]), time=str(NOW))[
                "result"
            ]
            if not found or any(sample["value"][1] == "NaN" for sample in found):
                empty.append(f"{panel['title']}: {target['expr']}")
            labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert all(labels <= sample["metric"].keys() for sample in found), target
    assert empty == []


def test_labels_with_quotes_are_what_dashboards_show(prometheus: str) -> None:
    """Each query that draws partitions or nodes returns the one whose name has quotes and lines."""
    seen = set()
    for label, series in (("partition", "aitne_partition_cpus"), ("node", "aitne_node_up")):
        hostile = next(name for name in SERIES[series][label] if '"' in name)
        for panel in (panel for each in DASHBOARDS.values() for panel in panels(each)):
            for target in panel["targets"]:
                if f"{{{{{label}}}}}" in target["legendFormat"] and series in target["expr"]:
                    answer = ask(
                        prometheus, "query", query=_expression(target["expr"]), time=str(NOW)
                    )
                    assert hostile in {one["metric"][label] for one in answer["result"]}, target
                    seen.add(label)
        values = ask(prometheus, f"label/{label}/values", **{"match[]": series})
        assert hostile in values
    assert "partition" in seen


def test_jobs_of_a_dashboard_are_chosen_from_those_that_prometheus_has(prometheus: str) -> None:
    for dashboard in DASHBOARDS.values():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                query = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
                assert query is not None
                values = ask(prometheus, f"label/{query[2]}/values", **{"match[]": query[1]})
                assert set(values) == set(JOB["jobid"])


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboard_has_the_form_that_grafana_loads(name: str) -> None:
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] == name
    assert "id" not in dashboard, "an ID belongs to one server"
    assert {"title", "tags", "time", "refresh", "schemaVersion"} <= dashboard.keys()
    variables = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert variables[0] == "datasource"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        assert panel["type"] in PANEL_TYPES
        place = panel["gridPos"]
        assert place["w"] >= 1
        assert place["h"] >= 1
        assert place["x"] + place["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in dashboard["panels"]), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, f"{one} overlaps {other}"
    for panel in panels(dashboard):
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_titles_and_identifiers_of_dashboards_are_unique() -> None:
    titles = [dashboard["title"] for dashboard in DASHBOARDS.values()]
    assert len(DASHBOARDS) >= 7
    assert len(set(titles)) == len(titles)


def test_provisioning_finds_the_source_and_the_folder() -> None:
    files = {path.parent.name: path for path in GRAFANA.glob("provisioning/*/*.yaml")}
    (source,) = yaml.safe_load(files["datasources"].read_text())["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
    (provider,) = yaml.safe_load(files["dashboards"].read_text())["providers"]
    assert provider["type"] == "file"
    assert Path(provider["options"]["path"]).is_absolute()
