"""The Hub's proxy connects only to nodes that the scheduler gave to the session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from aitne.core.errors import Unavailable
from aitne.core.settings import BrokerClientSettings, Settings
from aitne.services.sessions.session_address_check import NodeAddresses
from tests.support.jobs import make_session
from tests.unit.services.conftest import Bench, make_node

NAMES = {"gpu01": ["10.1.0.1", "fd00::1"], "gpu01-ib": ["10.2.0.1"], "gpu02": ["10.1.0.2"]}


async def resolve(name: str) -> Sequence[str]:
    return NAMES.get(name, ())


async def addresses(bench: Bench, **slurm: str) -> NodeAddresses:
    nodes = [make_node("gpu01").model_copy(update={"address": "gpu01-ib"}), make_node("gpu02")]
    await bench.nodes(*nodes)
    settings = Settings(data_dir=Path("/x"), scheduler="slurm", port=9000, slurm=slurm)
    return NodeAddresses(bench.store, settings, resolve)


@pytest.mark.parametrize(
    "address",
    ["gpu01:40001", "gpu01-ib:40001", "10.1.0.1:40001", "10.2.0.1:1024", "[fd00::1]:40001"],
)
async def test_the_names_and_addresses_of_the_jobs_nodes_are_right(
    bench: Bench, address: str
) -> None:
    job = make_session(nodes=("gpu01",), address=address)
    assert await (await addresses(bench)).find_problem(job) is None


@pytest.mark.parametrize(
    "address",
    [
        "gpu02:40001",
        "10.1.0.2:40001",
        "127.0.0.1:40001",
        "portal:40001",
        "169.254.169.254:8080",
        "[::1]:40001",
    ],
)
async def test_every_other_place_is_refused_by_name(bench: Bench, address: str) -> None:
    job = make_session(nodes=("gpu01", "gpu02"), address=address)
    problem = await (await addresses(bench)).find_problem(job)
    assert problem is not None
    assert address in problem
    assert "gpu01" in problem


@pytest.mark.parametrize("port", [1, 22, 443, 1023, 9000, 9001, 9002, 9003, 65_536, 99_999])
async def test_the_portals_own_ports_and_those_of_root_are_refused(bench: Bench, port: int) -> None:
    NAMES["n1"] = ["127.0.0.1"]
    job = make_session(nodes=("n1",), address=f"127.0.0.1:{port}")
    problem = await (await addresses(bench)).find_problem(job)
    assert problem is not None
    assert "sessions do not use this port" in problem
    fine = make_session(nodes=("n1",), address="127.0.0.1:40001")
    assert await (await addresses(bench)).find_problem(fine) is None


async def test_before_the_scheduler_has_told_the_nodes_nothing_is_concluded(bench: Bench) -> None:
    job = make_session(nodes=(), address="10.1.0.1:40001")
    with pytest.raises(Unavailable, match="not known yet"):
        await (await addresses(bench)).find_problem(job)


async def test_the_network_that_the_site_names(bench: Bench) -> None:
    there = await addresses(bench, agent_host="10.9.0.0/16")
    assert (
        await there.find_problem(make_session(nodes=("gpu01",), address="10.9.3.4:40001")) is None
    )
    for address in ("10.8.3.4:40001", "gpu02:40001"):
        assert await there.find_problem(make_session(nodes=("gpu01",), address=address)) is not None


async def test_on_one_machine_with_accounts_only_loopback_is_right(bench: Bench) -> None:
    await bench.nodes(make_node("here"))
    settings = Settings(data_dir=Path("/x"), scheduler="local", port=9000)
    addresses = NodeAddresses(bench.store, settings, resolve)
    theirs = make_session(nodes=("here",), address="169.254.169.254:8080")
    assert await addresses.find_problem(theirs) is None, "the platform's own account is believed"

    settings = settings.model_copy(
        update={"broker": BrokerClientSettings(socket=Path("/run/aitne/broker.sock"))}
    )
    addresses = NodeAddresses(bench.store, settings, resolve)
    assert (
        await addresses.find_problem(make_session(nodes=("here",), address="127.0.0.1:40001"))
        is None
    )
    for address in ("169.254.169.254:8080", "gpu01:40001", "127.0.0.1:9002", "127.0.0.1:631"):
        problem = await addresses.find_problem(make_session(nodes=("here",), address=address))
        assert problem is not None
        assert address in problem
