"""Tests of the address that a session listens on."""

from __future__ import annotations

import socket

import pytest

from aitne.agent.session_listen_address import Listener, find_listen_address, find_listener_owner
from tests.support.ports import reserve_ports

PORTAL = "http://127.0.0.1:8000"


def test_an_address_is_taken_as_it_is() -> None:
    assert find_listen_address("10.9.8.7", "n1", PORTAL) == "10.9.8.7"


def test_a_node_without_an_address_of_its_own_is_where_it_speaks_to_the_portal_from() -> None:
    # As on a development cluster: nodes of one machine, whose names cannot be resolved.
    assert find_listen_address("node", "n1.invalid", PORTAL) == "127.0.0.1"
    # A name that stands for loopback, as Debian writes it into /etc/hosts, is no address for others.
    assert find_listen_address("node", "localhost", PORTAL) == "127.0.0.1"


def test_the_address_in_a_network() -> None:
    assert find_listen_address("127.0.0.0/8", "n1.invalid", PORTAL) == "127.0.0.1"
    with pytest.raises(OSError, match=r"no address in 203\.0\.113\.0/24"):
        find_listen_address("203.0.113.0/24", "localhost", PORTAL)


def test_no_address_at_all() -> None:
    with pytest.raises(OSError, match=r"n1\.invalid is not its name"):
        find_listen_address("node", "n1.invalid", None)


def test_listener_of_port_is_determined_from_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    port = reserve_ports()
    with socket.create_server(("127.0.0.1", port)):
        assert find_listener_owner("127.0.0.1", port) is Listener.OURS
        # Seen by another account, it is another's.
        monkeypatch.setattr("os.geteuid", lambda: 4_242)
        assert find_listener_owner("127.0.0.1", port) is Listener.ANOTHERS
        assert find_listener_owner("127.0.0.2", port) is Listener.NOBODYS
    assert find_listener_owner("127.0.0.1", port) is Listener.NOBODYS, (
        "who has stopped listening is nobody"
    )


def test_server_on_all_addresses_listens_on_loopback() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert find_listener_owner("127.0.0.1", server.getsockname()[1]) is Listener.OURS


@pytest.mark.parametrize("host", ["::", "::ffff:127.0.0.1"])
def test_dual_stack_server_listens_on_ipv4_loopback(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.socket(socket.AF_INET6) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((host, 0))
        server.listen()
        port = server.getsockname()[1]
        assert find_listener_owner("127.0.0.1", port) is Listener.OURS
        monkeypatch.setattr("os.geteuid", lambda: 4_242)
        assert find_listener_owner("127.0.0.1", port) is Listener.ANOTHERS


def test_addresses_of_ipv6_are_compared() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        assert find_listener_owner("::1", port) is Listener.OURS
        assert find_listener_owner("fe80::1", port) is Listener.NOBODYS
