"""The broker's verb that checks the password of an account."""

from __future__ import annotations

from pydantic import Field

from aitne.core.broker.storage import AccountArgs
from aitne.core.models.base import Frozen


class CheckPasswordArgs(AccountArgs):
    """Arguments of the verb ``check_password``. The password is in no log: neither arguments nor
    errors are written."""

    password: str = Field(min_length=1, max_length=1_024, pattern=r"^[^\x00]*$", repr=False)


class CheckPasswordResult(Frozen):
    """Answer of ``check_password``: whether it is the account's password and the account may log in
    now."""

    right: bool
