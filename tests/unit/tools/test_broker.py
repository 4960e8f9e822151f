"""The settings of a development cluster's broker, read as the broker reads them."""

from __future__ import annotations

import tomllib

import pytest

from aitne.broker.config import BrokerConfig
from aitne_devcluster import broker
from aitne_devcluster.plan import DevClusterPlan


@pytest.mark.parametrize("release", ["system", "trixie"])
def test_the_broker_understands_its_settings(release: str) -> None:
    plan = DevClusterPlan.model_validate(
        {
            "name": "dev",
            "release": release,
            "nodes": 4,
            "gpus": 4,
            "cloud_nodes": 0,
            "port_base": 26_500,
        }
    )
    text = broker.format_settings(plan, "/usr/bin/python3", {1000, 0})
    found = BrokerConfig.model_validate(tomllib.loads(text))
    assert found.peers == [0, 1000]
    assert found.socket == plan.broker_socket
    assert found.slurm.conf == plan.slurm_conf
    assert tuple(found.slurm.command_prefix) == plan.prefix
    assert found.slurm.jwt_key == plan.jwt_key
    assert found.slurm.operator == "aitne-op"
    [scratch] = found.storage.areas
    assert scratch.path == f"{plan.scratch}/{{user}}"


@pytest.mark.parametrize(
    ("variables", "ids"),
    [
        ({}, (0, 0)),
        ({"SUDO_UID": "1000", "SUDO_GID": "1001"}, (1000, 1001)),
        ({"SUDO_UID": "1000; rm", "SUDO_GID": "1"}, (0, 0)),
    ],
)
def test_caller_of_sudo_may_use_cluster(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], ids: tuple[int, int]
) -> None:
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert broker.get_sudo_caller_ids() == ids
