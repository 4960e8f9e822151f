from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_train.collective_coordinator import CollectiveCoordinator, RequestKey, Response
from aitne_train.collective_request import Kind, ReduceOp, RequestMetadata
from aitne_train.request_encoding import encode_response, is_common_to_ranks


def ask(
    name: str, kind: Kind = Kind.ALLREDUCE, shape: tuple[int, ...] = (4,), **fields: object
) -> RequestMetadata:
    return RequestMetadata(
        kind, name=name, dtypes=("float32",), shapes=(shape,), **{"set_id": 0, **fields}
    )  # type: ignore[arg-type]


def bare(kind: Kind, extra: str = "") -> RequestMetadata:
    return RequestMetadata(kind, 0, "", extra=extra)


def names(responses: list[Response]) -> list[list[str]]:
    return [[each.name for each in response.asks] for response in responses]


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[int, list[tuple[int, str, int]]]:
    """Draw a number of ranks, and any order of their (rank, name, set) submissions."""
    size = draw(st.integers(1, 5))
    requests = []
    for at in range(draw(st.integers(1, 6))):
        set_id = draw(st.integers(0, 1))
        members = range(size) if set_id == 0 else range(1, size)
        requests += [(rank, f"t{at}", set_id) for rank in members]
    return size, draw(st.permutations(requests))


@given(interleavings(), st.data())
def test_request_is_answered_once_to_all_members_in_any_order(
    case: tuple[int, list[tuple[int, str, int]]], data: st.DataObject
) -> None:
    size, submissions = case
    coordinator = CollectiveCoordinator(size)
    if size > 1:
        for rank in range(size):
            coordinator.submit(
                rank, -1, bare(Kind.ADD_SET, ",".join(str(each) for each in range(1, size))), 0
            )
        assert [response.data for response in coordinator.take_responses()] == [1]
    seen: Counter[tuple[str, int]] = Counter()
    asked: Counter[tuple[str, int]] = Counter()
    taken: list[Response] = []
    for handle, (rank, name, set_id) in enumerate(submissions):
        coordinator.submit(rank, handle, ask(name, set_id=set_id))
        asked[name, set_id] += 1
        if data.draw(st.booleans()):
            taken += coordinator.take_responses()
            for response in taken:
                for each in response.asks:
                    assert asked[each.name, each.set_id] == len(response.members)
    taken += coordinator.take_responses()
    told: dict[int, list[int]] = {rank: [] for rank in range(size)}
    for response in taken:
        assert response.error is None
        for each, handles in zip(response.asks, response.handles, strict=True):
            seen[each.name, each.set_id] += 1
            assert set(handles) == set(response.members)
            for rank, handle in handles.items():
                assert submissions[handle] == (rank, each.name, each.set_id)
                told[rank].append(handle)
    assert set(seen.values()) <= {1}
    assert sum(len(handles) for handles in told.values()) == len(submissions)
    assert coordinator.list_pending() == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_ranks_with_less_data_join_and_the_others_go_on(steps: list[int], random: object) -> None:
    size = len(steps)
    coordinator = CollectiveCoordinator(size)
    done = [0] * size
    joined: list[int] = []
    answered: list[Response] = []
    while len(joined) < size:
        rank = random.choice([each for each in range(size) if each not in joined])  # type: ignore[attr-defined]
        if done[rank] == steps[rank]:
            coordinator.submit(rank, 99, bare(Kind.JOIN), 0)
            joined.append(rank)
        else:
            coordinator.submit(rank, done[rank], ask("", set_id=0), done[rank])
            done[rank] += 1
        answered += coordinator.take_responses()
    *reductions, last = answered
    assert last.kind == Kind.JOIN
    assert last.data == joined[-1]
    assert last.handles == [dict.fromkeys(range(size), 99)]
    keys = [key for response in reductions for key in response.keys]
    assert sorted(key.number for key in keys) == list(range(max(steps)))
    for response in reductions:
        for key, handles in zip(response.keys, response.handles, strict=True):
            assert response.error is None
            assert set(handles) == {rank for rank in range(size) if steps[rank] > key.number}


def test_small_reductions_that_are_ready_together_are_done_in_one() -> None:
    coordinator = CollectiveCoordinator(1, fusion_threshold=48)
    for at, request in enumerate(
        [
            ask("a"),
            ask("b", op=ReduceOp.MAX),
            ask("c"),
            ask("g", kind=Kind.ALLGATHER),
            ask("d"),
            ask("e"),
            ask("f", prescale=2.0),
        ]
    ):
        coordinator.submit(0, at, request)
    assert names(coordinator.take_responses()) == [["a", "c", "d"], ["b"], ["g"], ["e"], ["f"]]


def test_without_a_threshold_nothing_is_fused() -> None:
    coordinator = CollectiveCoordinator(1, fusion_threshold=0)
    coordinator.submit(0, 0, ask("a"))
    coordinator.submit(0, 1, ask("b"))
    assert names(coordinator.take_responses()) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (ask("t", shape=(5,)), "shape: rank 0: [4], ranks 1, 2: [5]"),
        (
            RequestMetadata(Kind.ALLREDUCE, 0, "t", ("float64",), ((4,),)),
            "dtype: rank 0: float32, ranks 1, 2: float64",
        ),
        (ask("t", op=ReduceOp.MIN), "reduction: rank 0: Sum, ranks 1, 2: Min"),
        (ask("t", postscale=0.5), "factors: rank 0: [1.0, 1.0], ranks 1, 2: [1.0, 0.5]"),
        (ask("t", device="cuda"), "device: rank 0: cpu, ranks 1, 2: cuda"),
        (
            RequestMetadata(Kind.ALLREDUCE, 0, "t", ("float32",) * 2, ((4,),) * 2),
            "number of tensors: rank 0: 1, ranks 1, 2: 2",
        ),
    ],
)
def test_ranks_that_disagree_are_told_who_asked_for_what(
    theirs: RequestMetadata, words: str
) -> None:
    coordinator = CollectiveCoordinator(3)
    coordinator.submit(0, 0, ask("t"))
    coordinator.submit(1, 0, theirs)
    coordinator.submit(2, 0, theirs)
    (response,) = coordinator.take_responses()
    assert response.members == (0, 1, 2)
    assert response.error is not None
    assert response.error.startswith("allreduce 't': ranks disagree on the ")
    assert words in response.error


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            {"op": "SUM", "parameter b": "float32 (8,)"},
            "parameter b: rank 0: float32 (4,), rank 1: float32 (8,)",
        ),
        ({"op": "SUM"}, "parameter b: rank 0: float32 (4,), rank 1: none"),
        ({"op": "MAX", "parameter b": "float32 (8,)"}, "op: rank 0: SUM, rank 1: MAX"),
    ],
)
def test_first_difference_of_two_optimizers_is_named(other: dict[str, str], words: str) -> None:
    ours = {"op": "SUM", "parameter a": "x" * 9_999, "parameter b": "float32 (4,)"}
    coordinator = CollectiveCoordinator(2)
    for rank, signature in enumerate((ours, {**other, "parameter a": "x" * 9_999})):
        coordinator.submit(rank, 0, bare(Kind.CHANNEL, json.dumps(signature, sort_keys=True)))
    (response,) = coordinator.take_responses()
    assert str(response.error).endswith(f"ranks disagree on the {words}.")


def test_roots_that_differ_or_are_not_in_the_set_are_refused() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("b", kind=Kind.BROADCAST, root=0))
    coordinator.submit(1, 0, ask("b", kind=Kind.BROADCAST, root=1))
    coordinator.submit(0, 1, ask("c", kind=Kind.BROADCAST, root=7))
    coordinator.submit(1, 1, ask("c", kind=Kind.BROADCAST, root=7))
    first, second = coordinator.take_responses()
    assert "root rank: rank 0: 0, rank 1: 1" in str(first.error)
    assert "rank 7, is not in the process set [0, 1]" in str(second.error)


def test_rows_may_differ_where_they_are_gathered_and_nothing_else() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("g", kind=Kind.ALLGATHER, shape=(2, 3)))
    coordinator.submit(1, 0, ask("g", kind=Kind.ALLGATHER, shape=(5, 3)))
    coordinator.submit(0, 1, ask("h", kind=Kind.ALLGATHER, shape=(2, 3)))
    coordinator.submit(1, 1, ask("h", kind=Kind.ALLGATHER, shape=(2, 4)))
    first, second = coordinator.take_responses()
    assert first.data == [[2, 5]]
    assert "rank 0: [2, 3], rank 1: [2, 4]" in str(second.error)


def test_alltoall_splits_are_returned_to_each_rank() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("a", kind=Kind.ALLTOALL, shape=(4,), splits=(1, 3)))
    coordinator.submit(1, 0, ask("a", kind=Kind.ALLTOALL, shape=(6,)))
    assert coordinator.take_responses()[0].data == [[1, 3], [3, 3]]


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ((1, 1), "[1, 1] do not add up to the 4 rows"),
        ((4,), "[4] are not one count for each of 2 ranks"),
        ((5, -1), "not one count"),
    ],
)
def test_impossible_splits_fail_on_both_sides(splits: tuple[int, ...], words: str) -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("a", kind=Kind.ALLTOALL, splits=splits))
    coordinator.submit(1, 0, ask("a", kind=Kind.ALLTOALL))
    (response,) = coordinator.take_responses()
    assert words in str(response.error)
    assert response.members == (0, 1)


@pytest.mark.parametrize(
    "request_", [ask("x", kind=Kind.ALLGATHER), ask("x", op=ReduceOp.MIN), bare(Kind.BARRIER)]
)
def test_request_unsupported_with_zeros_fails_while_rank_has_joined(
    request_: RequestMetadata,
) -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(1, 0, bare(Kind.JOIN), 0)
    coordinator.submit(0, 5, request_, 0 if not request_.name else -1)
    (response,) = coordinator.take_responses()
    assert "is not supported while a rank is in join()" in str(response.error)
    assert response.handles == [{0: 5}]


def test_ranks_that_all_wait_for_each_other_are_told_so() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("a"))
    coordinator.submit(1, 0, ask("b", kind=Kind.ALLGATHER))
    coordinator.record_blocked(0, RequestKey(0, "allreduce", "a", -1))
    assert coordinator.take_responses() == []
    coordinator.record_blocked(1, RequestKey(0, "allgather", "b", -1))
    failed = coordinator.take_responses()
    assert {response.error for response in failed} == {
        "Ranks wait for each other in different collectives: rank 0 waits in allreduce 'a', rank 1 waits in allgather 'b'."
    }
    assert [response.members for response in failed] == [(0,), (1,)]


def test_ranks_with_the_same_requests_get_the_same_message() -> None:
    coordinator = CollectiveCoordinator(3)
    for rank in range(3):
        coordinator.submit(rank, 7, ask("a"))
    for rank, handle in enumerate((7, 7, 8)):
        coordinator.submit(rank, handle, ask("b", shape=(1 << 24,)))
    same, other = coordinator.take_responses()
    assert is_common_to_ranks(same)
    assert len({str(encode_response(rank, same)) for rank in range(3)}) == 1
    assert not is_common_to_ranks(other)
    coordinator.submit(0, 1, bare(Kind.JOIN), 0)
    for rank in (1, 2):
        coordinator.submit(rank, 7, ask("c"))
    (joined,) = coordinator.take_responses()
    assert not is_common_to_ranks(joined)
    assert encode_response(0, joined)[2] == [-1]


def test_a_rank_that_goes_on_is_not_taken_for_blocked() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(0, 0, ask("a"))
    coordinator.submit(1, 0, ask("b"))
    coordinator.record_blocked(0, RequestKey(0, "allreduce", "a", -1))
    coordinator.submit(0, 1, ask("b"))
    assert names(coordinator.take_responses()) == [["b"]]
    coordinator.record_blocked(1, RequestKey(0, "allreduce", "b", -1))
    assert coordinator.take_responses() == []
    assert [(str(each.key), each.missing) for each in coordinator.list_pending()] == [
        ("allreduce 'a'", (1,))
    ]


def test_a_rank_whose_other_thread_goes_on_is_not_taken_for_blocked() -> None:
    coordinator = CollectiveCoordinator(2)
    for rank in range(2):
        coordinator.submit(rank, 0, ask(f"own{rank}"))
    coordinator.submit(0, 1, ask("both"))
    coordinator.record_blocked(0, RequestKey(0, "allreduce", "own0", -1))
    coordinator.submit(1, 1, ask("both"))
    coordinator.record_blocked(1, RequestKey(0, "allreduce", "own1", -1))
    assert [response.error for response in coordinator.take_responses()] == [None]
    coordinator.submit(0, 2, ask("own1"))
    assert names(coordinator.take_responses()) == [["own1"]]


def test_a_set_of_the_same_ranks_is_not_made_twice_and_ends_with_what_waits_in_it() -> None:
    coordinator = CollectiveCoordinator(3)
    for attempt, expected in ((0, 1), (1, None)):
        for rank in range(3):
            coordinator.submit(rank, attempt, bare(Kind.ADD_SET, "0,2"), attempt)
        assert coordinator.take_responses()[0].data == expected
    coordinator.submit(2, 7, ask("t", set_id=1))
    for rank in range(3):
        coordinator.submit(rank, 8, bare(Kind.REMOVE_SET, "1"), 0)
    removed = {response.kind: response for response in coordinator.take_responses()}
    assert removed[Kind.REMOVE_SET].data == 1
    assert removed[Kind.ALLREDUCE].error == "Process set 1 was removed."
    coordinator.submit(0, 9, ask("t", set_id=1))
    assert "does not exist" in str(coordinator.take_responses()[0].error)


def test_joined_rank_takes_part_in_each_step_of_channel() -> None:
    coordinator = CollectiveCoordinator(2)
    for rank in range(2):
        coordinator.submit(rank, 0, RequestMetadata(Kind.CHANNEL, 0, "optimizer"))
    channel = coordinator.take_responses()[0].data
    assert coordinator.begin_step(0, channel, 0) == []
    assert coordinator.begin_step(1, channel, 0) == []
    coordinator.submit(1, 1, bare(Kind.JOIN), 0)
    assert coordinator.begin_step(0, channel, 1) == [(1, channel, 1)]
    assert coordinator.list_missed_steps() == []
    assert coordinator.begin_step(0, channel, 2) == [(1, channel, 2)]


def test_a_channel_is_put_off_while_a_rank_has_joined() -> None:
    coordinator = CollectiveCoordinator(2)
    coordinator.submit(1, 0, bare(Kind.JOIN), 0)
    coordinator.submit(0, 0, RequestMetadata(Kind.CHANNEL, 0, "optimizer"))
    (put_off,) = coordinator.take_responses()
    assert (put_off.data, put_off.error) == (None, None)
    coordinator.submit(0, 1, bare(Kind.JOIN), 0)
    for rank in range(2):
        coordinator.submit(rank, 2, RequestMetadata(Kind.CHANNEL, 0, "optimizer"))
    assert coordinator.take_responses()[-1].data == 0


def test_a_step_that_began_before_the_join_is_made_up_for() -> None:
    coordinator = CollectiveCoordinator(2)
    for rank in range(2):
        coordinator.submit(rank, 0, RequestMetadata(Kind.CHANNEL, 0, "optimizer"))
    channel = coordinator.take_responses()[0].data
    coordinator.begin_step(0, channel, 0)
    coordinator.submit(1, 1, bare(Kind.JOIN), 0)
    assert coordinator.list_missed_steps() == [(1, channel, 0)]
