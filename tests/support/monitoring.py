"""Prometheus and Alertmanager, Debian's packages, and the files below ``monitoring``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from aitne.api.job_metrics_text import JOB_METRICS
from aitne.core.platform import metric_names
from aitne.core.platform.metric_names import Metric
from tests.support.requirements import lacking

MONITORING = Path(__file__).resolve().parents[2] / "monitoring"
PROGRAMS = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
"""The Debian package of each program."""


def prometheus_program(name: str) -> str:
    """Return the path of the program; skip the test where it is not installed."""
    path = shutil.which(name)
    if path is None:
        lacking("prometheus", f"needs {name}, of Debian's package {PROGRAMS[name]}")
    return path


def known_metrics() -> dict[str, Metric]:
    """Return all metrics of the platform, of jobs and of the training runtime, by name."""
    metrics = [*vars(metric_names).values(), *JOB_METRICS]
    return {metric.name: metric for metric in metrics if isinstance(metric, Metric)}


def rules(name: str) -> list[dict[str, Any]]:
    """Return the rules in a file below ``monitoring/prometheus/rules``."""
    groups = yaml.safe_load((MONITORING / "prometheus" / "rules" / name).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alert_rules() -> list[dict[str, Any]]:
    """Return all rules of alerts."""
    return rules("alerts.yml")


def used_metrics() -> set[str]:
    """Return the names of the metrics in all expressions, without the suffixes of histograms."""
    expressions = " ".join(rule["expr"] for rule in (*rules("recording.yml"), *alert_rules()))
    names = set(re.findall(r"\baitne_\w+", expressions))
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}
