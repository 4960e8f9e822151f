"""The files below ``monitoring``: Prometheus' own tools accept them, and they use what the platform measures."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import ROOT, typed_lines
from tests.support.metric_samples import SERIES
from tests.support.monitoring import (
    MONITORING,
    alert_rules,
    known_metrics,
    prometheus_program,
    used_metrics,
)

RUNBOOKS = MONITORING.parent / "docs" / "handbook" / "alerts.md"
FOLDERS = ("prometheus", "grafana/provisioning/datasources", "grafana/provisioning/dashboards")
"""Folders below ``/etc`` that packages create."""
TESTS = MONITORING / "prometheus" / "tests" / "rules_test.yml"
PARTS = ("**Meaning.**", "**Look at.**", "**Do.**")


def test_commands_of_the_handbook_install_and_check_the_files(tmp_path: Path) -> None:
    """Those of both pages, with the folders of this test."""
    for program in ("promtool", "amtool"):
        prometheus_program(program)
    secrets = tmp_path / "data" / "secrets"
    for folder in (secrets, *(tmp_path / "etc" / name for name in FOLDERS)):
        folder.mkdir(parents=True)
    for name in ("metrics_token", "alerts_token"):
        (secrets / name).write_text("secret")
    lines = [
        *typed_lines("docs/handbook/monitoring.md"),
        *typed_lines("docs/handbook/dashboards.md"),
    ]
    typed = [line for line in lines if line.split()[0] in ("cp", "install", "promtool", "amtool")]
    assert len(typed) == 12
    for line in typed:
        for place, here in (
            ("-o prometheus", f"-o {os.geteuid()}"),
            ("DATA_DIR", str(tmp_path / "data")),
            ("/var/lib/", f"{tmp_path}/lib/"),
            ("/etc/", f"{tmp_path}/etc/"),
        ):
            line = line.replace(place, here)
        done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if line.startswith("cp"):
            for copy in (tmp_path / "etc" / "prometheus").glob("*.yml"):
                copy.write_text(re.sub(r"(?<=\s)/etc/", f"{tmp_path}/etc/", copy.read_text()))
    installed = {path.name for path in tmp_path.rglob("*.json")}
    assert installed == {path.name for path in MONITORING.glob("grafana/dashboards/*.json")}
    assert (tmp_path / "etc/prometheus/aitne_metrics_token").stat().st_mode & 0o777 == 0o400


def test_rules_use_only_metrics_that_exist() -> None:
    assert used_metrics() <= set(known_metrics())


def test_data_of_dashboards_has_only_metrics_and_labels_that_exist() -> None:
    known = known_metrics()
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
