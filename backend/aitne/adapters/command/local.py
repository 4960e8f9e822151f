"""Commands as the platform's own account."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from aitne.adapters.accounts import own_account_name
from aitne.adapters.command._process import run_process
from aitne.core.errors import NotAllowed
from aitne.core.ports.command import Completed


class LocalCommand:
    """Fulfils ``core.ports.command.Command`` without a broker: as nobody but itself."""

    alone = True

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self._prefix = tuple(prefix)

    async def run(
        self,
        argv: Sequence[str],
        *,
        account: str | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_s: float,
    ) -> Completed:
        """Run to the end, as the process's own account.

        Raises:
            NotAllowed: ``account`` is another one.
            CommandTimeout: it did not end in time and was killed.
            Unavailable: it could not be started.
        """
        if account not in (None, own_account_name()):
            raise NotAllowed(
                f"This platform runs as {own_account_name()} (uid {os.geteuid()}) and cannot act as "
                f"{account}: it has no broker. Set broker.socket."
            )
        return await run_process(
            [*self._prefix, *argv], name=argv[0], stdin=stdin, env=env, timeout_s=timeout_s
        )
