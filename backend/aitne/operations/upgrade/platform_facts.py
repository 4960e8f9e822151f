"""Questions about a platform that need its settings, answered by a process of the platform's account.

Root starts it, because the settings of another account decide what is opened and loaded.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from aitne.core.errors import AitneError, SetupError
from aitne.core.models.base import Strict
from aitne.local_system.settings_loader import load_settings
from aitne.operations.upgrade.platform_service import start_environment
from aitne.store.upgrade_database_state import read_database_state
from aitne.supervisor.per_user_accounts import acting_as_platform
from aitne.supervisor.process_account import ProcessAccount, make_popen_arguments


class PlatformFacts(Strict):
    """Facts from the settings of a platform, and from its database if that was asked for."""

    internal_url: str
    separate_broker: bool
    """True if the broker is a service of its own."""
    schema_revision: str | None = None
    """Revision of the database's schema; None if the database is empty."""
    jobs_since: int = 0
    """Number of jobs that were accepted at or after the time that was asked for."""


def query_facts(
    data_dir: Path, account: ProcessAccount | None, since: datetime | None = None
) -> PlatformFacts:
    """Return facts of the platform in ``data_dir``, of its settings alone or, with a time ``since``,
    of its database as well. ``account`` is that of commands for the platform.

    Raises:
        SetupError: the settings cannot be loaded, or the database does not answer.
    """
    argv = [sys.executable, "-P", "-m", __name__, str(data_dir)]
    try:
        done = subprocess.run(
            argv if since is None else [*argv, since.isoformat()],
            env=start_environment(data_dir, account),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            **make_popen_arguments(account),
        )
    except OSError as error:
        raise SetupError(
            f"The account of the platform cannot run {error.filename}: {error.strerror}. Install the "
            "platform where every account can read it, such as /opt/aitne."
        ) from error
    if done.returncode:
        raise SetupError(" ".join(done.stderr.strip().splitlines()[-8:]))
    try:
        return PlatformFacts.model_validate_json(done.stdout)
    except ValidationError as error:
        raise SetupError(f"The settings of the platform cannot be read: {error}") from error


def read_facts(data_dir: Path, since: datetime | None) -> PlatformFacts:
    """Return the facts in this process. Raises ``AitneError``."""
    settings = load_settings(data_dir)
    facts = PlatformFacts(
        internal_url=settings.internal_url,
        separate_broker=settings.broker.socket is not None and not settings.uses_user_accounts,
    )
    if since is None:
        return facts
    with acting_as_platform(settings):
        state = asyncio.run(read_database_state(settings.database_url, since.astimezone(UTC)))
    return facts.model_copy(
        update={"schema_revision": state.revision, "jobs_since": state.jobs_since}
    )


if __name__ == "__main__":
    try:
        time = datetime.fromisoformat(sys.argv[2]) if len(sys.argv) > 2 else None
        sys.stdout.write(read_facts(Path(sys.argv[1]), time).model_dump_json())
    except AitneError as error:
        sys.exit(error.message)
