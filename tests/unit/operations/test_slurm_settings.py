"""Settings of Slurm: what the playbook writes, what the handbook explains, and what doctor and setup want are the same."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml

from aitne.operations.requirements.slurm_conf_settings import SlurmReport, list_missing_settings
from tests.support.ansible import FOLDER
from tests.support.documents import DOCS

RECORDED = Path(__file__).parents[2] / "assets" / "slurm" / "24.11" / "cli" / "config.txt"
VARIABLES = yaml.safe_load((FOLDER / "group_vars" / "all.yml").read_text())
ADDRESSES = {
    *(
        "ClusterName",
        "SlurmctldHost",
        "SlurmUser",
        "StateSaveLocation",
        "SlurmdSpoolDir",
        "MailProg",
    ),
    *("SlurmctldLogFile", "SlurmdLogFile", "AccountingStorageHost", "NodeName", "PartitionName"),
    *("AuthType", "AuthAltParameters", "ReturnToService"),
}
"""Settings of the playbook that the platform does not rely on."""


def written(name: str, **variables: object) -> dict[str, str]:
    """The settings in a file of the role with the variables' defaults, by name."""
    path = FOLDER / "roles" / "slurm_controller" / "templates" / f"{name}.j2"
    node = SimpleNamespace(rc=0, stdout="NodeName=n1 CPUs=4 State=UNKNOWN")
    site = {
        "groups": {"controller": ["login1"]},
        "slurm_controller_nodes": SimpleNamespace(results=[node]),
    }
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(path.read_text()).render({**VARIABLES, **site, **variables})
    lines = (line.partition("=") for line in text.splitlines() if re.match(r"\w+=", line))
    return {key: value for key, _, value in lines}


def shown(settings: dict[str, str]) -> str:
    """The output of ``scontrol show config`` of a Slurm with these settings."""
    rest = [
        line
        for line in RECORDED.read_text().splitlines()
        if line.partition("=")[0].strip() not in settings
    ]
    return "\n".join([*(f"{key} = {value}" for key, value in settings.items()), *rest])


def explained() -> dict[str, str]:
    """The values in the handbook's table of settings, by the name of the setting."""
    text = (DOCS / "handbook" / "install.md").read_text().partition("\n## Settings of Slurm\n")[2]
    found: dict[str, str] = {}
    for row in re.findall(
        r"^\| (`.*?) \| (`.*?) \| .+ \|$", text.partition("\n## ")[0], re.MULTILINE
    ):
        names, values = (re.findall(r"`([^`]+)`", cell) for cell in row)
        found |= dict(zip(names, values, strict=True))
    return found


def test_playbook_writes_what_the_handbook_explains_and_the_doctor_wants() -> None:
    topology = written("slurm.conf", slurm_topology=["SwitchName=s1 Nodes=n1"])
    settings = written("slurm.conf") | written("cgroup.conf")
    page = explained()
    assert {name: (topology | settings).get(name) for name in page} == page
    assert topology.keys() | settings.keys() <= page.keys() | ADDRESSES
    assert list(list_missing_settings(SlurmReport.parse(shown(settings)))) == []


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("MinJobAge", "30 sec", "MinJobAge=300"),
        ("JobRequeue", "0", "JobRequeue=1"),
        ("PrologFlags", "(null)", "PrologFlags=Contain"),
        ("ProctrackType", "proctrack/pgid", "ProctrackType=proctrack/cgroup"),
        ("TaskPlugin", "task/none", "TaskPlugin=task/cgroup,task/affinity"),
        ("ConstrainRAMSpace", "no", "ConstrainRAMSpace=yes"),
        ("ConstrainDevices", "no", "ConstrainDevices=yes"),
        ("AccountingStoreFlags", "(null)", "AccountingStoreFlags=job_comment"),
        ("AccountingStorageTRES", "cpu,mem,energy,node", "AccountingStorageTRES=gres/gpu"),
        ("SelectType", "select/linear", "SelectType=select/cons_tres"),
    ],
)
def test_setting_that_differs_is_named(setting: str, value: str, remedy: str) -> None:
    settings = written("slurm.conf") | written("cgroup.conf")
    lines = [
        each.line
        for each in list_missing_settings(SlurmReport.parse(shown({**settings, setting: value})))
    ]
    assert any(remedy in line for line in lines), lines
