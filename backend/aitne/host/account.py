"""The account of this machine that this process runs as."""

from __future__ import annotations

import os
import pwd


def own_account_name() -> str:
    """Return the name of the account that this process runs as, or its number."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
