"""Tests of the choice of slurmrestd's API version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm.rest.api_versions import (
    KNOWN,
    choose_api_version,
    parse_served_versions,
)
from aitne.core.errors import SetupError
from tests.unit.slurm_rest.recorded import answer


@pytest.mark.parametrize(
    ("release", "offered", "chosen"),
    [
        ("22.05", (36, 37, 38), 38),
        ("24.11", (40, 41, 42), 42),
        ("26.05", (42, 43, 44, 45), 45),
    ],
)
def test_each_release_is_spoken_to_in_its_newest_version(
    release: str, offered: tuple[int, ...], chosen: int
) -> None:
    _, document = answer(release, None, "openapi")
    assert parse_served_versions(document) == offered
    assert choose_api_version(offered).number == chosen


@given(st.sets(st.integers(0, 99)))
def test_only_what_both_sides_know_is_chosen(offered: set[int]) -> None:
    common = offered & {api.number for api in KNOWN}
    if common:
        assert choose_api_version(tuple(offered)).number == max(common)
    else:
        with pytest.raises(SetupError, match="serves these API versions"):
            choose_api_version(tuple(offered))


def test_an_unknown_slurmrestd_is_told_by_its_versions() -> None:
    with pytest.raises(SetupError) as caught:
        choose_api_version((98, 99))
    assert "v0.0.98, v0.0.99" in caught.value.message
    assert "v0.0.38" in caught.value.message
    with pytest.raises(SetupError, match="none at all"):
        choose_api_version(parse_served_versions({"paths": {"/other": {}}}))
