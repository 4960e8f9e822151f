"""Prometheus and Alertmanager, Debian's packages."""

from __future__ import annotations

import shutil

from tests.support.requirements import lacking

PROGRAMS = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "amtool": "prometheus-alertmanager",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
"""The package of each program."""


def prometheus_program(name: str) -> str:
    """Return the path of the program; skip the test where it is not installed."""
    path = shutil.which(name)
    if path is None:
        lacking("prometheus", f"needs {name}, of Debian's package {PROGRAMS[name]}")
    return path
