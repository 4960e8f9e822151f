"""The files below ``monitoring``: Prometheus' own tools accept them, and they use what the platform measures."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from aitne.core.platform import metric_names
from aitne.core.platform.metric_names import Metric
from tests.support.metric_samples import SERIES
from tests.support.monitoring import MONITORING, alert_rules, prometheus_program, used_metrics

RUNBOOKS = MONITORING.parent / "docs" / "handbook" / "alerts.md"
RULES = sorted((MONITORING / "prometheus" / "rules").glob("*.yml"))
TESTS = MONITORING / "prometheus" / "tests" / "rules_test.yml"
PARTS = ("**Meaning.**", "**Look at.**", "**Do.**")


def run(*argv: object) -> None:
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_pass_the_tests_of_promtool() -> None:
    promtool = prometheus_program("promtool")
    run(promtool, "check", "rules", *RULES)
    run(promtool, "test", "rules", TESTS)


def test_configurations_are_accepted(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    for name, (program, *words) in {
        "prometheus/prometheus.yml": ("promtool", "check", "config"),
        "alertmanager/alertmanager.yml": ("amtool", "check-config"),
    }.items():
        text = (MONITORING / name).read_text()
        copy = tmp_path / Path(name).name
        copy.write_text(re.sub(r"/etc/prometheus/aitne_\w+", str(token), text))
        run(prometheus_program(program), *words, copy)


def test_rules_use_only_metrics_that_exist() -> None:
    known = {metric.name for metric in vars(metric_names).values() if isinstance(metric, Metric)}
    assert used_metrics() <= known


def test_data_of_dashboards_has_only_metrics_and_labels_that_exist() -> None:
    known = {
        metric.name: metric for metric in vars(metric_names).values() if isinstance(metric, Metric)
    }
    for series, values in SERIES.items():
        name = series if series in known else re.sub(r"_(bucket|count|sum)$", "", series)
        assert name in known, series
        assert set(values) - {"le"} == set(known[name].labels), series


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_alert_has_texts_a_runbook_and_tests(rule: dict[str, Any]) -> None:
    name, annotations = rule["alert"], rule["annotations"]
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert annotations["summary"]
    assert annotations["description"]
    assert annotations["runbook_url"] == f"docs/handbook/alerts.md#{name.lower()}"
    section = RUNBOOKS.read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    assert all(part in section for part in PARTS)
    outcomes = {
        bool(case["exp_alerts"])
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test.get("alert_rule_test", ())
        if case["alertname"] == name
    }
    assert outcomes == {True, False}
