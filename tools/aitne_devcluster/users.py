"""Unix users of development clusters. Missing ones are created, and those are removed with the last
cluster.
"""

from __future__ import annotations

import json
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

from aitne.adapters.program_runner import PATH, run_program
from aitne.core.platform.dev_cluster_record import DevUser
from aitne_devcluster.plan import HOME

OPERATOR = "aitne-op"
USERS = (
    DevUser(name="alice", account="ml", accounts=("ml", "vision")),
    DevUser(name="bob", account="ml", accounts=("ml",)),
)
ACCOUNTS = ("ml", "vision")
LEDGER = HOME / ".made-users.json"
"""File with the users that the first cluster created; all clusters share it."""
_OPERATOR_UIDS = range(950, 899, -1)
"""Uids for the operator's account, which are rarely in use: adduser(8) counts up from 100,
useradd(8) counts down from 999.
"""


def list_user_names() -> tuple[str, ...]:
    """Return the names of all users that a cluster needs."""
    return (*(user.name for user in USERS), OPERATOR)


def ensure_users() -> None:
    """Create the users that are missing. The caller must hold the lock ``locks.ALL``.

    Raises:
        SetupError: useradd failed.
    """
    made = _read_created_users()
    for name in list_user_names():
        if _has_user(name):
            continue
        home = name != OPERATOR and not Path("/home", name).exists()
        # Written first: after a crash a line may be useless, but no user is missing.
        made[name] = home
        LEDGER.write_text(json.dumps(made) + "\n", encoding="utf-8")
        run_program(["useradd", *_make_useradd_options(name, home=home), name], env={"PATH": PATH})


def _make_useradd_options(name: str, *, home: bool) -> Iterator[str]:
    yield from ("--user-group", "--create-home" if home else "--no-create-home")
    if name == OPERATOR:
        uid = next(number for number in _OPERATOR_UIDS if not _is_uid_taken(number))
        yield from ("--system", "--uid", str(uid))
        yield from ("--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin")
    else:
        yield from ("--home-dir", f"/home/{name}", "--shell", "/bin/bash")


def remove_users() -> None:
    """Remove the users that were created for clusters, with their home folders. The caller must
    hold the lock ``locks.ALL``.

    Raises:
        SetupError: userdel failed.
    """
    for name, home in _read_created_users().items():
        if _has_user(name):
            run_program(["userdel", name], env={"PATH": PATH})
        if home and Path("/home", name).exists():
            shutil.rmtree(Path("/home", name))
    LEDGER.unlink(missing_ok=True)


def _read_created_users() -> dict[str, bool]:
    """Return the users that were created for clusters, by name; the value is True if the home
    folder was created, too.
    """
    return dict(json.loads(LEDGER.read_text(encoding="utf-8"))) if LEDGER.exists() else {}


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _is_uid_taken(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
