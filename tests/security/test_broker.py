"""The broker's socket and files against other accounts of the machine."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from aitne.core.broker.protocol import VERBS
from aitne.core.broker.protocol_versions import PROTOCOL
from tests.support.broker import BrokerBench, as_uid, unix_users


@pytest.fixture(scope="module")
def bench() -> Iterator[BrokerBench]:
    with unix_users() as users:
        bench = BrokerBench(users)
        bench.start()
        yield bench
        bench.stop()


def say(path: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(
            str(path)
        )  # waits for room among those not accepted yet; with a timeout it fails
        connection.settimeout(10)
        connection.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_no_verb_answers_another_account(bench: BrokerBench, verb: str) -> None:
    lines = [
        {"protocol": PROTOCOL, "release": "x"},
        {"id": 1, "verb": verb, "args": {}},
    ]
    answers = as_uid(bench.uid("ben"), lambda: say(bench.socket, lines), gid=0)
    assert [answer["error"]["code"] for answer in answers] == ["not_allowed"]


def test_connections_of_another_account_do_not_keep_the_platform_out(bench: BrokerBench) -> None:
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    with ExitStack() as open_sockets:
        for each in strangers:
            open_sockets.enter_context(each)
        os.seteuid(bench.uid("ben"))  # the kernel notes the account at connect()
        try:
            for each in strangers:
                each.connect(str(bench.socket))
        finally:
            os.seteuid(0)
        welcome, *_ = say(bench.socket, [{"protocol": PROTOCOL, "release": "x"}])
    assert "error" not in welcome


def test_audit_log_and_socket_are_closed_to_other_users(bench: BrokerBench) -> None:
    uid = bench.uid("ben")
    assert (bench.audit.stat().st_uid, stat.S_IMODE(bench.audit.stat().st_mode)) == (0, 0o600)
    assert stat.S_IMODE(bench.audit.parent.stat().st_mode) == 0o700
    assert not as_uid(uid, lambda: os.access(bench.audit, os.R_OK))
    assert not as_uid(uid, lambda: os.access(bench.socket.parent, os.W_OK))
    assert not as_uid(uid, lambda: os.access(bench.socket, os.W_OK))
    assert (bench.socket.stat().st_uid, stat.S_IMODE(bench.socket.stat().st_mode)) == (0, 0o660)


def test_a_platform_that_was_taken_over_gets_no_root_and_no_other_verb(bench: BrokerBench) -> None:
    """Requests that an attacker with the platform's uid could send."""
    tries: list[dict[str, Any]] = [
        {"verb": "run", "args": {"argv": ["id"]}},
        {"verb": "__init__", "args": {}},
        {"verb": "handle", "args": {"verb": "ping", "args": {}}},
        {"verb": "_by_helper", "args": {}},
        {"verb": "start_notes", "args": {}},
    ]
    lines = [{"id": number, **each} for number, each in enumerate(tries)]
    _, *answers = say(bench.socket, [{"protocol": PROTOCOL, "release": "x"}, *lines])
    assert len(answers) == len(tries)
    assert {answer["error"]["code"] for answer in answers} == {"invalid_input"}
    assert len(bench.audited(outcome="refused", detail="unknown verb")) == len(tries)
