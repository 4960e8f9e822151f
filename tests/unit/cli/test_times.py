from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from aitne.cli.time_options import parse_time
from aitne.core.errors import InvalidInput


def test_a_moment_is_a_time_or_so_long_from_now() -> None:
    assert parse_time("--until", None) is None
    noon = parse_time("--until", "2026-03-01T12:00:00+01:00")
    assert noon == datetime(2026, 3, 1, 11, tzinfo=timezone.utc)  # noqa: UP017
    later = parse_time("--until", "+2h")
    assert later is not None
    left = later - datetime.now(timezone.utc)  # noqa: UP017
    assert timedelta(minutes=119) < left <= timedelta(hours=2)


@pytest.mark.parametrize("text", ["", "tomorrow", "500000000d", "99999999999999d"])
def test_invalid_time_is_refused_with_option_name(text: str) -> None:
    with pytest.raises(InvalidInput, match="--until"):
        parse_time("--until", text)
