"""Verification of passwords by PAM. Only a process of root can verify passwords of accounts other
than its own.
"""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

from aitne.core.errors import SetupError


def check_password(account: str, password: str, service: str) -> bool:
    """Return whether the password is correct and the account may log in now. Blocks until PAM
    answers.

    Args:
        account: Unix account of this machine.
        password: password to verify.
        service: name of the PAM service, whose rules are in ``/etc/pam.d``.

    Raises:
        SetupError: pamela is not installed.
    """
    try:
        import pamela
    except ImportError as error:
        raise SetupError("PAM requires the package pamela: pip install aitne[pam].") from error
    try:
        # PAM's credentials belong to a login session of the account, and there is none here.
        pamela.authenticate(account, password, service=service, resetcred=0, close=True)
        pamela.check_account(account, service=service)
    except pamela.PAMError:
        return False
    return True


def read_account_facts(account: str) -> dict[str, Any]:
    """Return the fields ``full_name`` and ``groups`` of the identity of a Unix account of this
    machine. A group without a name is returned as its GID. Raises ``KeyError`` if the account does
    not exist.
    """
    entry = pwd.getpwnam(account)
    numbers = os.getgrouplist(account, entry.pw_gid)
    return {
        "full_name": entry.pw_gecos.split(",")[0],
        "groups": [_group_name(number) for number in numbers],
    }


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
