"""When ranks begin, which failure counts, when a run is over: by what nodes say, with a clock of the test's."""

from __future__ import annotations

import signal
from typing import Any

from aitne_train.launcher.launch_coordinator import (
    LaunchCoordinator,
    describe_exit,
    extract_traceback,
)


class Run:
    """A coordinator of two nodes, with what it has ordered and said."""

    def __init__(self, restarts: int = 0) -> None:
        self.orders: list[tuple[int, dict[str, Any]]] = []
        self.said: list[str] = []
        self.coordinator = LaunchCoordinator(
            ["n1", "n2"],
            restarts,
            60.0,
            30.0,
            lambda node, order: self.orders.append((node, order)),
            self.said.append,
        )

    def kinds(self) -> list[tuple[int, str]]:
        found = [(node, order["kind"]) for node, order in self.orders]
        self.orders.clear()
        return found

    def hears(self, node: int, message: dict[str, Any] | None, now: float = 1.0) -> None:
        if message is not None:
            message = {"generation": self.coordinator.generation, **message}
        self.coordinator.handle_message(node, message, now)

    def begin(self) -> None:
        for node in (1, 0):
            self.hears(node, {"kind": "here"})
        self.hears(0, {"kind": "port", "port": 4000})
        self.kinds()

    def rank(self, node: int, rank: int, code: int, *lines: str, now: float = 1.0) -> None:
        self.hears(node, {"kind": "rank", "rank": rank, "code": code, "lines": lines}, now)

    def ended(self) -> int | None:
        for node in (0, 1):
            self.hears(node, {"kind": "ended"})
        return self.coordinator.code


def test_all_begin_together_once_the_first_node_has_a_port() -> None:
    run = Run()
    run.hears(0, {"kind": "here"})
    assert run.kinds() == []
    run.hears(1, {"kind": "here"})
    assert run.kinds() == [(0, "prepare")]
    run.hears(0, {"kind": "port", "port": 4000})
    assert [(node, order["port"]) for node, order in run.orders] == [(0, 4000), (1, 4000)]
    assert run.ended() == 0


def test_missing_node_is_named() -> None:
    run = Run()
    run.hears(0, {"kind": "here"})
    run.coordinator.tick(59.0)
    assert run.coordinator.code is None
    run.coordinator.tick(60.0)
    assert run.coordinator.code == 1
    assert "n2 did not join in time" in run.said[0]


def test_a_signal_that_comes_before_the_nodes_ends_them_too() -> None:
    run = Run()
    run.hears(0, {"kind": "told", "number": int(signal.SIGTERM)})
    assert run.kinds() == [(0, "over"), (1, "over")]
    assert run.coordinator.code == 143


def test_a_node_that_goes_before_any_rank_was_started_leaves_nothing_to_wait_for() -> None:
    run = Run(restarts=1)
    for node in (0, 1):
        run.hears(node, {"kind": "here"})
    run.hears(0, None)
    assert run.coordinator.code == 1
    assert run.kinds()[-1] == (1, "over")


def test_the_first_failure_counts() -> None:
    run = Run()
    run.begin()
    run.rank(1, 3, 7)
    assert run.kinds() == [(0, "stop"), (1, "stop"), (1, "mark")]
    run.rank(0, 0, 9)
    assert run.ended() == 7
    assert run.said == ["rank 3 on node n2 ended with exit code 7"]


def test_an_echo_waits_for_its_cause() -> None:
    run = Run()
    run.begin()
    run.rank(
        0,
        0,
        1,
        "Traceback (most recent call last):",
        "horovod.HorovodInternalError: rank 2 is gone",
        "wait",
    )
    assert run.kinds() == []
    run.rank(1, 2, 137, now=1.5)
    assert run.ended() == 137
    assert "rank 2 on node n2 was ended by signal 9 (SIGKILL: Killed)" in run.said[0]


def test_an_echo_alone_counts_after_a_while() -> None:
    run = Run()
    run.begin()
    run.rank(0, 0, 1, "RuntimeError: Connection closed by peer [127.0.0.1]:1")
    assert run.coordinator.deadline == 3.0
    run.coordinator.tick(3.0)
    assert (0, "stop") in run.kinds()
    assert run.ended() == 1


LOST_PEER = "HorovodInternalError: Rank 3 is gone: its process ended or left the group."


def test_a_rank_that_ends_with_0_while_others_need_it_is_the_cause() -> None:
    run = Run()
    run.begin()
    run.rank(1, 2, 0)
    run.rank(1, 3, 0)
    run.rank(0, 0, 1, LOST_PEER)
    assert run.said == []
    run.coordinator.tick(3.0)
    assert run.said[0].splitlines() == [
        "rank 3 on node n2 ended with exit code 0 before the others: rank 0 on node n1 lost the connection "
        "to it and ended with exit code 1. Its last output:",
        f"  | {LOST_PEER}",
    ]
    mark = next(order for _, order in run.orders if order["kind"] == "mark")
    assert (mark["rank"], mark["code"]) == (3, 1)
    assert mark["message"] == run.said[0].partition(". Its")[0]
    assert run.kinds() == [(0, "stop"), (1, "stop"), (1, "mark")]
    assert run.ended() == 1


def test_end_with_0_may_be_reported_after_the_rank_that_lost_it() -> None:
    run = Run()
    run.begin()
    run.rank(0, 0, 1, "RuntimeError: Connection closed by peer [127.0.0.1]:1")
    run.rank(1, 3, 0, now=1.5)
    run.coordinator.tick(3.0)
    assert run.said[0].startswith("rank 3 on node n2 ended with exit code 0 before the others")


def test_ranks_that_ended_with_0_are_no_cause_of_other_failures() -> None:
    run = Run()
    run.begin()
    run.rank(1, 3, 0)
    run.rank(0, 0, 1, "HorovodInternalError: Rank 1 is gone: it was killed.")
    run.rank(0, 1, 137, now=1.5)
    assert run.said[0].startswith("rank 1 on node n1 was ended by signal 9")
    other = Run()
    other.begin()
    other.rank(1, 3, 0)
    other.rank(0, 0, 1, "ValueError: no such data")
    assert other.said[0].startswith("rank 0 on node n1 ended with exit code 1")
    restarted = Run(restarts=1)
    restarted.begin()
    restarted.rank(1, 3, 0)
    restarted.rank(0, 0, 1, "ValueError: no such data")
    assert restarted.ended() is None
    restarted.hears(0, {"kind": "port", "port": 4000})
    restarted.rank(0, 0, 1, "ConnectionResetError")
    restarted.coordinator.tick(9.0)
    assert restarted.said[-1].startswith("rank 0 on node n1 ended with exit code 1")


def test_ranks_that_end_as_a_signal_has_told_them_have_not_failed() -> None:
    run = Run(restarts=3)
    run.begin()
    run.hears(1, {"kind": "told", "number": int(signal.SIGUSR1)})
    run.rank(1, 2, 75)
    assert run.kinds() == []
    run.coordinator.tick(31.0)
    assert run.kinds() == [(0, "stop"), (1, "stop")]
    assert run.ended() == 75


def test_a_rank_that_fails_while_it_saves_has_failed() -> None:
    run = Run(restarts=3)
    run.begin()
    run.hears(0, {"kind": "told", "number": int(signal.SIGTERM)})
    run.rank(1, 2, 75)
    run.rank(0, 0, 1, "OSError: [Errno 28] No space left on device")
    assert run.ended() == 1
    assert "No space left" in run.said[0]


def test_without_a_signal_75_is_a_failure() -> None:
    run = Run()
    run.begin()
    run.rank(0, 0, 75)
    assert run.ended() == 75
    assert "rank 0" in run.said[0]


def test_a_node_that_is_gone_ends_the_run_and_is_not_restarted() -> None:
    run = Run(restarts=3)
    run.begin()
    run.hears(1, None)
    assert run.kinds() == [(0, "stop"), (1, "mark")]
    run.hears(0, {"kind": "ended"})
    assert run.coordinator.code == 1
    assert run.said == ["node n2 is lost, with its ranks"]


def test_a_node_that_is_gone_ends_the_run_also_long_after_it_was_to_save() -> None:
    run = Run()
    run.begin()
    run.hears(0, {"kind": "told", "number": int(signal.SIGUSR1)})
    run.hears(1, None, now=900.0)
    assert (0, "stop") in run.kinds()
    run.hears(0, {"kind": "ended"})
    assert run.coordinator.code == 1
    assert run.said == ["node n2 is lost, with its ranks"]


def test_restarts_are_counted_and_old_news_is_not_heard() -> None:
    run = Run(restarts=1)
    run.begin()
    run.rank(0, 0, 5)
    assert run.ended() is None
    assert run.kinds()[-1] == (0, "prepare")
    run.hears(1, {"kind": "rank", "rank": 2, "code": 143, "lines": (), "generation": 0})
    run.hears(0, {"kind": "port", "port": 4001})
    run.rank(1, 2, 6)
    assert run.ended() == 6


def test_endings_in_words() -> None:
    assert describe_exit(3) == "ended with exit code 3"
    assert describe_exit(139) == "was ended by signal 11 (SIGSEGV: Segmentation fault)"
    assert "memory runs out" in describe_exit(137)
    assert describe_exit(255) == "ended with exit code 255"


def test_the_traceback_is_what_is_shown() -> None:
    lines = [
        b"step 1",
        b"Traceback (most recent call last):",
        b"  old",
        b"ValueError: handled",
        b"step 2",
    ]
    chained = [
        b"Traceback (most recent call last):",
        b"KeyError: 'a'",
        b"",
        b"During handling of the above exception, another exception occurred:",
        b"",
        b"Traceback (most recent call last):",
        b"RuntimeError: \xff",
    ]
    assert extract_traceback([*lines, *chained]) == [
        line.decode("utf-8", "replace") for line in chained
    ]
    assert extract_traceback([b"%d" % number for number in range(20)]) == [
        str(number) for number in range(10, 20)
    ]
    assert extract_traceback([]) == []


# --- MASTER_PORT ---------------------------------------------------------------------------------


IN_USE = "DistNetworkError: The server socket has failed to listen. port: {port}, name: EADDRINUSE"


def test_port_in_use_restarts_the_ranks_once_with_another() -> None:
    run = Run()
    run.begin()
    run.rank(0, 0, 1, IN_USE.format(port=4000))
    assert run.kinds() == [(0, "stop"), (1, "stop")]
    assert run.ended() is None
    assert run.kinds() == [(0, "prepare")]
    run.hears(0, {"kind": "port", "port": 5000})
    assert [(node, order["port"]) for node, order in run.orders] == [(0, 5000), (1, 5000)]
    run.rank(0, 0, 1, IN_USE.format(port=5000), now=1.5)
    run.coordinator.tick(10.0)  # the error looks like the consequence of another one
    assert run.ended() == 1
    assert run.said == [
        "port 4000 was in use when rank 0 began to listen there: all ranks are restarted once with "
        "another port",
        f"rank 0 on node n1 ended with exit code 1. Its last output:\n  | {IN_USE.format(port=5000)}",
    ]


def test_restart_for_a_port_is_none_of_those_that_are_allowed() -> None:
    run = Run(restarts=1)
    run.begin()
    run.rank(0, 0, 1, IN_USE.format(port=4000))
    assert run.ended() is None
    run.hears(0, {"kind": "port", "port": 5000})
    run.rank(1, 2, 9)
    assert run.ended() is None
    assert run.said[-1] == "all ranks are restarted (0 more restarts are allowed)"


def test_use_of_a_port_of_the_program_is_its_failure() -> None:
    run = Run()
    run.begin()
    run.rank(0, 0, 1, "OSError: [Errno 98] Address already in use: port 40001")
    assert run.ended() == 1


def test_listener_of_another_account_kills_all_ranks_and_ends_the_run() -> None:
    run = Run(restarts=3)
    run.begin()
    run.hears(0, {"kind": "foreign", "uid": 1002})
    sentence = (
        "uid 1002, another account, listens on port 4000 of node n1, the MASTER_PORT of the ranks: "
        "all ranks are killed"
    )
    assert run.said == [sentence]
    assert [(node, order["kind"], order.get("number")) for node, order in run.orders] == [
        (0, "signal", signal.SIGKILL),
        (1, "signal", signal.SIGKILL),
        (0, "mark", None),
    ]
    assert run.orders[-1][1]["message"] == sentence
    run.rank(0, 0, 137)
    run.rank(1, 2, 137)
    assert run.ended() == 1
    assert run.said == [sentence]
