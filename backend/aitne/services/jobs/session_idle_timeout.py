"""Inactivity duration after which a session ends."""

from __future__ import annotations

from typing import Literal

from aitne.core.models.base import OFF
from aitne.core.models.template import InactivityLimit
from aitne.core.notifications.settings import IdleSettings


def resolve_inactivity(
    requested: int | Literal["off"] | None, offered: InactivityLimit, idle: IdleSettings
) -> int | None:
    """Return the number of seconds without activity after which a session is ended; None if there
    is no limit.

    The value in the job file (``requested``) takes precedence over the template's (``offered``),
    and the template's over the value in the platform's settings.
    """
    if requested is not None:
        return None if requested == OFF else int(requested)
    maximum = max_inactivity(offered, idle)
    usual = offered.default or idle.inactivity_duration
    return maximum if usual is None else min(usual, maximum or usual)


def max_inactivity(offered: InactivityLimit, idle: IdleSettings) -> int | None:
    """Return the longest inactivity duration in seconds that the template and the platform's
    settings permit; None: any.
    """
    bounds = [bound for bound in (idle.max_inactivity_duration, offered.max) if bound is not None]
    return min(bounds, default=None)
