"""The state machine of projects, walked at random, and two layers of limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.errors import IllegalTransition
from aitne.core.models.limits import Limits
from aitne.core.models.project import STEPS, ProjectState, Step, compute_next_state
from aitne.core.projects.limit_layers import cap_member_limits, combine_limits, list_limit_problems

S = ProjectState
LEGAL = {
    (Step.APPROVE, S.REQUESTED): S.ACTIVE,
    (Step.DECLINE, S.REQUESTED): S.CLOSED,
    (Step.CLOSE, S.ACTIVE): S.CLOSED,
    (Step.CLOSE, S.EXPIRED): S.CLOSED,
    (Step.REOPEN, S.CLOSED): S.ACTIVE,
    (Step.EXPIRE, S.ACTIVE): S.EXPIRED,
    (Step.RENEW, S.ACTIVE): S.ACTIVE,
    (Step.RENEW, S.EXPIRED): S.ACTIVE,
    (Step.RENEW, S.CLOSED): S.CLOSED,
}


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("state", ProjectState)
def test_each_step_from_each_state(step: Step, state: ProjectState) -> None:
    if (step, state) in LEGAL:
        assert compute_next_state(step, state, "vision") is LEGAL[step, state]
    else:
        with pytest.raises(IllegalTransition, match=f"vision is {state}"):
            compute_next_state(step, state, "vision")


@given(st.lists(st.sampled_from(Step), max_size=40))
def test_no_walk_leads_back_to_a_request_or_around_its_approval(walk: list[Step]) -> None:
    """No sequence of steps activates a project without its approval or reopening."""
    state, taken = S.REQUESTED, list[Step]()
    for step in walk:
        try:
            state = compute_next_state(step, state, "vision")
        except IllegalTransition:
            assert (step, state) not in LEGAL
            continue
        taken.append(step)
        assert state is not S.REQUESTED
        assert taken[0] in (Step.APPROVE, Step.DECLINE)
        if state is S.ACTIVE and taken[0] is Step.DECLINE:
            assert Step.REOPEN in taken


def test_every_step_leads_somewhere() -> None:
    assert set(STEPS) == set(Step)
    reachable = {S.REQUESTED} | {to for edges in STEPS.values() for to in edges.values()}
    assert reachable == set(ProjectState)


amounts = st.none() | st.integers(0, 20)
limits = st.builds(
    Limits,
    max_gpus=amounts,
    max_jobs=amounts,
    gpu_hours=amounts,
    max_gpus_by_type=st.dictionaries(st.sampled_from(["a100", "h200"]), st.integers(0, 20)),
    qos=st.lists(st.sampled_from(["long", "normal", "debug"]), unique=True).map(tuple),
)


@given(limits, limits)
def test_both_layers_hold_at_once(granted: Limits, own: Limits) -> None:
    both = combine_limits(granted, own)
    for name in ("max_gpus", "max_jobs", "gpu_hours"):
        present = [v for v in (getattr(granted, name), getattr(own, name)) if v is not None]
        assert getattr(both, name) == (min(present) if present else None)
    for kind in ("a100", "h200"):
        layers = (granted.max_gpus_by_type, own.max_gpus_by_type)
        counts = [layer[kind] for layer in layers if kind in layer]
        assert both.max_gpus_by_type.get(kind) == (min(counts) if counts else None)
    # No QOS comes of it that was not granted, and never "any" where some were named.
    assert set(both.qos) <= set(granted.qos)
    assert bool(both.qos) == bool(granted.qos)


@given(limits, limits)
def test_limits_within_granted_limits_are_unchanged(granted: Limits, wish: Limits) -> None:
    if not list(list_limit_problems(wish, granted)):
        both = combine_limits(granted, wish)
        for name in ("max_gpus", "max_jobs", "gpu_hours"):
            if getattr(wish, name) is not None:
                assert getattr(both, name) == getattr(wish, name)


@given(limits, limits)
def test_a_members_own_limits_never_lie_above_the_projects(project: Limits, member: Limits) -> None:
    held = cap_member_limits(project, member)
    for name in ("max_gpus", "max_jobs", "gpu_hours"):
        own, most = getattr(member, name), getattr(project, name)
        least = min(each for each in (own, most) if each is not None) if own is not None else None
        assert getattr(held, name) == least
    assert set(held.max_gpus_by_type) == set(member.max_gpus_by_type)
    for kind, count in held.max_gpus_by_type.items():
        assert count <= project.max_gpus_by_type.get(kind, count)
    assert set(held.qos) <= set(project.qos)
    assert held.qos or not (member.qos and project.qos)


def test_more_than_was_granted_is_named() -> None:
    granted = Limits(max_gpus=4, max_wall_s=3_600, qos=("normal",))
    wish = Limits(
        max_gpus=5, max_gpus_by_type={"h200": 6}, max_wall_s=7_200, max_jobs=9, qos=("long",)
    )
    fields = [problem.field for problem in list_limit_problems(wish, granted)]
    assert fields == ["max_gpus", "max_wall_s", "max_gpus_by_type.h200", "qos"]


def test_a_qos_needs_a_grant() -> None:
    assert [problem.field for problem in list_limit_problems(Limits(qos=("long",)), Limits())] == [
        "qos"
    ]
