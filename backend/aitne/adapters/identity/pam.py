"""Authentication of this machine's Unix accounts by PAM: through the broker if one is configured,
otherwise in this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import datetime

from pydantic import TypeAdapter, ValidationError
from typing_extensions import override

from aitne.adapters._pam import check_password, read_account_facts
from aitne.adapters.broker_scheduler import BrokerClient
from aitne.adapters.unix_account_mapping import permitted_user
from aitne.core.broker.password_verb import CheckPasswordResult
from aitne.core.errors import NotAllowed, SetupError
from aitne.core.models.base import UserName
from aitne.core.ports.identity_source import FormSource, Identity, require_group, role_by_groups
from aitne.core.settings import Settings
from aitne.core.users.auth_settings import PamSettings
from aitne.core.users.user_names import get_account_name

_NAME: TypeAdapter[str] = TypeAdapter(UserName)
_AT_ONCE = 4
"""Maximum number of concurrent checks: each wrong password occupies a thread for some seconds."""


class PamIdentity(FormSource):
    """Identity source that checks passwords of this machine's Unix accounts by PAM. A portal user
    corresponds to the account of the same name, or to the one in ``[accounts] map``.
    """

    name = "pam"

    def __init__(self, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._settings: PamSettings = settings.auth.pam
        self._accounts = settings.accounts
        self._broker = None if settings.broker.socket is None else BrokerClient(settings)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        if self._broker is None and os.geteuid() != 0:
            raise SetupError(
                "The source `pam` needs root to check other users' passwords. Set the broker's "
                "socket in [broker], since the broker runs as root; or use another source."
            )

    @override
    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        try:
            name = _NAME.validate_python(username)
        except ValidationError:
            return None
        if not password or "\0" in password:
            return None
        try:
            account = get_account_name(name, self._accounts.map)
        except ValueError:
            return None  # the Unix account is another user's
        async with self._slots:
            right = await self._check_password(account, password)
        if not right:
            return None
        facts = await asyncio.to_thread(read_account_facts, account)
        groups = frozenset(facts["groups"])
        require_group(name, groups, self._settings.allowed_groups)
        return Identity(
            name=name,
            display_name=facts["full_name"] or None,
            role=role_by_groups(groups, self._settings.admin_groups),
        )

    async def close(self) -> None:
        """Close the broker connection, if there is one."""
        if self._broker is not None:
            await self._broker.close()

    async def _check_password(self, account: str, password: str) -> bool:
        if self._broker is not None:
            args = {"account": account, "password": password}
            try:
                answer = await self._broker.call("check_password", args, CheckPasswordResult)
            except NotAllowed:
                return False  # an account that the broker does not act for
            return answer.right
        try:
            await asyncio.to_thread(permitted_user, account, self._accounts)
        except NotAllowed:
            return False  # a system account cannot log in
        return await asyncio.to_thread(check_password, account, password, self._settings.service)
