from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from aitne.services.jobs.start_forecast import StartForecast

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("after", "waits"), [(None, False), (-5.0, False), (30.0, False), (61.0, True), (3_600.0, True)]
)
def test_a_start_that_the_scheduler_puts_off_is_no_start_now(
    after: float | None, waits: bool
) -> None:
    starts_at = None if after is None else NOW + timedelta(seconds=after)
    assert (StartForecast(starts_at).find_pending_reason(NOW) is not None) is waits
