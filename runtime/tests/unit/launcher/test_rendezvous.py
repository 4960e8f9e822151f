"""The store in which ranks leave each other messages, over real connections."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne_train.launcher import frames, rendezvous_store_client
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.own_addresses import (
    build_interface_variables,
    own_addresses,
    split_address,
)
from aitne_train.launcher.rank_detection import RankTopology
from aitne_train.launcher.rendezvous_store_client import RendezvousClient
from aitne_train.launcher.rendezvous_store_server import RendezvousServer
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually


@pytest.fixture
def server() -> Iterator[RendezvousServer]:
    made = RendezvousServer("secret", "127.0.0.1")
    yield made
    made.close()


@pytest.fixture
def client(server: RendezvousServer) -> Iterator[RendezvousClient]:
    made = RendezvousClient([f"127.0.0.1:{server.port}"], "secret")
    yield made
    made.close()


def test_stored_value_is_returned(client: RendezvousClient) -> None:
    client.set("a", b"1")
    client.set("a", bytes(1_000_000))
    assert client.get("a", 1) == bytes(1_000_000)


def test_waiting_clients_receive_value_when_it_is_set(client: RendezvousClient) -> None:
    got: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: got.append(client.get("late", 30))) for _ in range(8)
    ]
    for each in threads:
        each.start()
    client.set("late", b"here")
    for each in threads:
        each.join()
    assert got == [b"here"] * 8


def test_missing_value_times_out(client: RendezvousClient) -> None:
    with pytest.raises(TimeoutError, match=r"no rank has set never within 0\.05 s"):
        client.get("never", 0.05)
    client.set("still", b"works")


def test_only_one_claims(server: RendezvousServer, client: RendezvousClient) -> None:
    other = RendezvousClient(client.addresses, "secret")
    assert client.claim("mine", b"a")
    assert not other.claim("mine", b"b")
    assert other.get("mine", 1) == b"a"
    other.close()


def test_a_restart_never_meets_old_keys(client: RendezvousClient) -> None:
    again = RendezvousClient(client.addresses, "secret", "1/")
    client.set("a", b"old")
    with pytest.raises(TimeoutError):
        again.get("a", 0.01)
    again.close()


def test_client_with_wrong_token_is_disconnected(server: RendezvousServer) -> None:
    stranger = RendezvousClient([f"127.0.0.1:{server.port}"], "guess")
    with pytest.raises(ConnectionError):
        stranger.get("a", 1)


def test_a_server_that_does_not_know_the_token_is_not_believed(server: RendezvousServer) -> None:
    """It may be another run's at a port that was ours."""
    ours = RendezvousServer("ours", "127.0.0.1")
    client = RendezvousClient([f"127.0.0.1:{server.port}", f"127.0.0.1:{ours.port}"], "ours")
    client.set("a", b"1")
    assert client.get("a", 1) == b"1"
    client.close()
    ours.close()


def test_noise_does_no_harm(server: RendezvousServer, client: RendezvousClient) -> None:
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 2000, b"", b"\0\0\0\x01"):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(noise)
    client.set("a", b"1")
    assert client.get("a", 1) == b"1"


def test_an_address_that_is_not_there_is_passed_over(server: RendezvousServer) -> None:
    client = RendezvousClient(
        [f"127.0.0.1:{reserve_ports()}", "no.such.host.invalid:1", f"127.0.0.1:{server.port}"],
        "secret",
    )
    client.set("a", b"1")
    assert client.host == "127.0.0.1"
    client.close()


def test_the_servers_end_is_noticed_while_waiting() -> None:
    server = RendezvousServer("secret", "127.0.0.1")
    client = RendezvousClient([f"127.0.0.1:{server.port}"], "secret")
    client.set("a", b"1")
    threading.Timer(0.05, server.close).start()
    with pytest.raises(ConnectionError):
        client.get("never", 60)


def test_a_line_carries_frames_both_ways_and_its_end() -> None:
    heard: list[tuple[str, bytes | None]] = []
    server = RendezvousServer(
        "secret", "127.0.0.1", lambda name, payload: heard.append((name, payload))
    )
    client = RendezvousClient([f"127.0.0.1:{server.port}"], "secret")
    line = client.open_line("node")
    line.sendall(frames.encode_frame(b"hello"))
    server.send("node", b"answer")
    assert frames.receive_frame(line) == b"answer"
    eventually("it is heard", lambda: heard == [("node", b"hello")])
    line.close()
    eventually("the end is heard", lambda: heard[-1] == ("node", None))
    other = client.open_line("other")
    server.send("other", b"last")
    server.close()
    assert frames.receive_frame(other) == b"last"
    with pytest.raises(ConnectionError):
        frames.receive_frame(other)
    other.close()


def test_a_line_ends_within_a_minute_when_the_other_machine_has_lost_its_power(
    client: RendezvousClient,
) -> None:
    line = client.open_line("1")
    idle, between, times, unanswered_ms = (
        line.getsockopt(socket.IPPROTO_TCP, option)
        for option in (
            socket.TCP_KEEPIDLE,
            socket.TCP_KEEPINTVL,
            socket.TCP_KEEPCNT,
            socket.TCP_USER_TIMEOUT,
        )
    )
    assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert idle + between * times <= 60
    assert 0 < unanswered_ms <= 60_000
    line.close()


def test_joins_without_a_launcher_by_a_folder(tmp_path: Path) -> None:
    environ = {
        rendezvous_store_client.DIR: str(tmp_path),
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_ID": str(os.getpid()),
    }
    child = os.fork()
    if child == 0:
        try:
            store = rendezvous_store_client.join_store(
                RankTopology(1, 2, 1, 2, source="slurm"), environ
            )
            store.set("from1", store.get("from0", 30) + b"!")
        finally:
            os._exit(0)
    store = rendezvous_store_client.join_store(RankTopology(0, 2, 0, 2, source="slurm"), environ)
    store.set("from0", b"hello")
    assert store.get("from1", 30) == b"hello!"
    os.waitpid(child, 0)
    eventually("the address is taken back once all have met", lambda: not list(tmp_path.iterdir()))


def test_a_rank_that_waits_in_vain_says_what_to_do(tmp_path: Path) -> None:
    environ = {
        rendezvous_store_client.DIR: str(tmp_path),
        rendezvous_store_client.TIMEOUT: "0.1",
        "SLURM_JOB_ID": "2",
        "SLURM_STEP_ID": "0",
    }
    with pytest.raises(LaunchError, match=r"rank 1 has waited 0\.1 s for rank 0"):
        rendezvous_store_client.join_store(RankTopology(1, 2, 1, 2, source="slurm"), environ)


def test_a_run_that_nothing_tells_from_others_is_refused() -> None:
    with pytest.raises(LaunchError, match="AITNE_RENDEZVOUS_DIR"):
        rendezvous_store_client.join_store(RankTopology(1, 2, 1, 2, source="mpi"), {})


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(LaunchError, match="written by other users"):
        rendezvous_store_client.create_store_folder({rendezvous_store_client.DIR: str(tmp_path)}, 1)


def test_addresses() -> None:
    assert split_address("n1:40") == ("n1", 40)
    assert split_address("[::1]:40") == ("::1", 40)
    for wrong in ("n1", ":40", "n1:", "n1:x", "n1:0", "n1:65536"):
        with pytest.raises(LaunchError):
            split_address(wrong)
    assert own_addresses(40, {}, 1) == ["127.0.0.1:40"]
    assert own_addresses(40, {"SLURMD_NODENAME": "n1"}, 2)[0] == "n1:40"
    assert [each.startswith("127.") for each in own_addresses(40, {}, 2)].index(True) > 0


@pytest.mark.parametrize("name", ["AITNE_NETWORK_INTERFACE", "HOROVOD_GLOO_IFACE"])
def test_chosen_interface_is_the_only_address_for_other_nodes(name: str) -> None:
    assert own_addresses(40, {name: "ib7,lo", "SLURMD_NODENAME": "n1"}, 2) == ["127.0.0.1:40"]
    assert build_interface_variables({name: "ib7,lo"}) == {
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "=lo",
    }
    with pytest.raises(LaunchError, match=f"{name} is 'ib7', and this node has no such network"):
        own_addresses(40, {name: "ib7"}, 2)
