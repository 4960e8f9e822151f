"""Tests of the retention of jobs: the times of the site and of projects."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from aitne.core.models.project import Retention
from aitne.core.retention import KeepTimes, RetentionSettings, keep_times, list_retention_problems

DAY = 86_400


def test_site_keeps_all_jobs_by_default() -> None:
    assert keep_times(RetentionSettings()) == KeepTimes(None, None)
    site = RetentionSettings.model_validate({"keep_jobs": "90d"})
    assert keep_times(site) == KeepTimes(90 * DAY, 90 * DAY)


def test_times_are_read_as_durations() -> None:
    values = {"keep_jobs": "90d", "keep_failed_jobs": "forever"}
    assert keep_times(RetentionSettings.model_validate(values)) == KeepTimes(90 * DAY, None)
    for wrong in ("", "-1d", "ever"):
        with pytest.raises(ValidationError):
            RetentionSettings.model_validate({"keep_jobs": wrong})
    with pytest.raises(ValidationError, match="keep_failed_jobs must not be shorter"):
        RetentionSettings.model_validate({"keep_jobs": "90d", "keep_failed_jobs": "30d"})


@pytest.mark.parametrize(
    ("own", "most", "kept"),
    [
        ({"keep_jobs": "30d"}, None, (30, 180)),
        ({"keep_jobs": "365d"}, None, (90, 180)),
        ({"keep_jobs": "365d"}, "400d", (365, 365)),
        ({"keep_jobs": "forever"}, "400d", (400, 400)),
        ({"keep_jobs": "30d", "keep_failed_jobs": "7d"}, None, (30, 30)),
        ({}, "400d", (90, 180)),
    ],
)
def test_project_has_its_own_times_within_the_site_limit(
    own: dict[str, str], most: str | None, kept: tuple[int, int]
) -> None:
    site = RetentionSettings.model_validate(
        {"keep_jobs": "90d", "keep_failed_jobs": "180d", "max_keep_jobs": most}
    )
    times = keep_times(site, Retention.model_validate(own))
    assert (times.ended_s, times.failed_s) == tuple(days * DAY for days in kept)


def test_times_that_a_site_does_not_permit_are_named() -> None:
    site = RetentionSettings.model_validate({"keep_jobs": "90d", "max_keep_jobs": "365d"})

    def problems(**own: str) -> list[tuple[str, str | None]]:
        wish = Retention.model_validate(own)
        return [(problem.field, problem.allowed) for problem in list_retention_problems(wish, site)]

    assert problems(keep_jobs="365d", keep_failed_jobs="1d") == []
    assert problems(keep_jobs="366d") == [("keep_jobs", "at most 365d")]
    assert problems(keep_failed_jobs="forever") == [("keep_failed_jobs", "at most 365d")]
    assert problems(keep_jobs="1h") == [("keep_jobs", "at least 1d")]
