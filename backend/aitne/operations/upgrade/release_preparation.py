"""Preparation of a new release, by that release itself, while the earlier one serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.store.migrate import is_known_revision
from aitne.store.upgrade_database_state import read_database_state
from aitne.supervisor import platform_control
from aitne.supervisor.per_user_accounts import acting_as_platform


def prepare_release(settings: Settings, progress: Callable[[str], None]) -> None:
    """Check that this release can use the settings and the database, and create its environments.

    Raises:
        SetupError: it cannot.
    """
    with acting_as_platform(settings):
        state = asyncio.run(read_database_state(settings.database_url, datetime.now(UTC)))
    if state.revision is not None and not is_known_revision(state.revision):
        raise SetupError(
            f"The database has the schema {state.revision}, which the new release does not know: the "
            "installed release is newer."
        )
    platform_control.ensure_software(settings, progress)
