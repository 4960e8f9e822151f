"""Tests of entity tags: a change with a tag applies to the version that the client read."""

from __future__ import annotations

import pytest
from fastapi import Response

from aitne.api.conditional_requests import RequestETags, compute_etag
from aitne.core.errors import ChangedMeanwhile
from aitne.core.models.base import Frozen


class Thing(Frozen):
    title: str


SEEN, CHANGED = Thing(title="seen"), Thing(title="changed")


@pytest.mark.parametrize(
    "if_match",
    [None, "*", compute_etag(SEEN), f'"other", {compute_etag(SEEN)}', f" {compute_etag(SEEN)} "],
)
def test_matching_etag_permits_change(if_match: str | None) -> None:
    RequestETags(Response(), if_match).check_if_match(SEEN)


@pytest.mark.parametrize(
    "if_match", [compute_etag(CHANGED), '""', "nonsense", "", "W/" + compute_etag(SEEN)]
)
def test_other_etag_refuses_change(if_match: str) -> None:
    with pytest.raises(ChangedMeanwhile, match="Read it again"):
        RequestETags(Response(), if_match).check_if_match(SEEN)


def test_the_answer_carries_the_tag_of_its_body() -> None:
    response = Response()
    assert RequestETags(response, None).set_etag(SEEN) is SEEN
    assert response.headers["etag"] == compute_etag(Thing(title="seen")) != compute_etag(CHANGED)
