"""Ports that are held for programs: who may listen on them, and who is seen to."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from aitne_train.launcher import held_ports, port_listeners
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.held_ports import HeldPort
from tests.support.ports import reserve_ports


@pytest.fixture
def held() -> Iterator[HeldPort]:
    port = HeldPort(0.01)
    yield port
    port.close()


def dual(port: int) -> socket.socket:
    """A server as torch's: on all addresses, with SO_REUSEADDR."""
    if not socket.has_dualstack_ipv6():
        return socket.create_server(("", port))
    return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)


def test_port_is_outside_the_kernel_range_and_another_each_time() -> None:
    low, high = held_ports._read_kernel_range()
    numbers = set()
    for _ in range(20):
        port = HeldPort(0.01)
        numbers.add(port.number)
        port.close()
    assert len(numbers) > 10
    assert not [number for number in numbers if low <= number <= high or number < 20_000]


@pytest.mark.parametrize("text", ["1024 65535", "10000\t65000", "20000 65535"])
def test_ports_are_found_where_the_kernel_has_most_of_them(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    low, high = map(int, text.split())
    monkeypatch.setattr(held_ports, "_read_kernel_range", lambda: (low, high))
    port = HeldPort(0.01)
    assert 20_000 <= port.number < 65_536
    port.close()


def test_port_in_use_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        free = reserve_ports()
        monkeypatch.setattr(held_ports, "_draw_ports", lambda: iter((used, free)))
        port = HeldPort(0.01)
        assert port.number == free
        port.close()
        monkeypatch.setattr(held_ports, "_draw_ports", lambda: iter((used,)))
        with pytest.raises(LaunchError, match="end programs that listen"):
            HeldPort(0.01)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_closed_port_excludes_all_and_open_one_lets_servers_in(held: HeldPort, host: str) -> None:
    with pytest.raises(OSError, match="in use"):
        socket.create_server((host, held.number))
    assert held.next_look is None
    held.open_to_program()
    socket.create_server((host, held.number)).close()
    with dual(held.number), pytest.raises(OSError, match="in use"):
        socket.create_server((host, held.number))
    with socket.socket() as without_option, pytest.raises(OSError, match="in use"):
        without_option.bind((host, held.number))


@pytest.mark.parametrize("source", ["monitoring", "tables"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::1"])
def test_listener_of_another_account_is_seen(
    held: HeldPort, host: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "tables":

        def refuse(family: int, port: int) -> list[tuple[bytes, int]]:
            raise FileNotFoundError

        monkeypatch.setattr(port_listeners, "_query_kernel", refuse)
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    held.open_to_program()
    assert held.find_foreign_uid() is None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, held.number), family=family) as server:
        packed = socket.inet_pton(family, host)
        uid = [
            uid for address, uid in port_listeners.find_listeners(held.number) if address == packed
        ]
        assert len(uid) == 1
        assert held.find_foreign_uid() is None
        monkeypatch.setattr("os.geteuid", lambda: uid[0] + 1)
        assert held.find_foreign_uid() == uid[0]
        # A connection is no listener.
        client = socket.create_connection((server.getsockname()[0], held.number))
        accepted, _ = server.accept()
    assert held.find_foreign_uid() is None
    client.close()
    accepted.close()


def test_looks_are_rare_while_a_program_of_this_account_listens(held: HeldPort) -> None:
    held.open_to_program()
    held.find_foreign_uid()
    soon = held.next_look
    with dual(held.number):
        held.find_foreign_uid()
        later = held.next_look
    assert soon is not None
    assert later is not None
    assert later - soon > 0.1
