"""Unix account under which this process runs."""

from __future__ import annotations

import os
import pwd


def own_account_name() -> str:
    """Return the name of the Unix account under which this process runs, or its uid as text if it
    has no name.
    """
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
