"""The broker's verb that checks the password of an account."""

from __future__ import annotations

from pydantic import Field

from aitne.core.broker.storage_area_verbs import AccountArgs
from aitne.core.models.base import Frozen


class CheckPasswordArgs(AccountArgs):
    """Arguments of the verb ``check_password``. They and the errors of this verb are never logged,
    because they contain the password.
    """

    password: str = Field(min_length=1, max_length=1_024, pattern=r"^[^\x00]*$", repr=False)


class CheckPasswordResult(Frozen):
    """Result of ``check_password``: whether the password is correct and the account may log in now."""

    right: bool
    """Whether the password is correct and the account may log in now."""
