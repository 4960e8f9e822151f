"""Event of a change to a user's credentials, about which the user is notified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aitne.store.database import Transaction

ACCOUNT_SECURITY = "account.security"


def append_security_event(tx: Transaction, owner: str, data: Mapping[str, Any]) -> None:
    """Append the event about a change to the owner's credentials; ``data["change"]`` is
    ``sign_in``, ``token``, ``password`` or ``second_factor``.
    """
    tx.append_event(ACCOUNT_SECURITY, data, owner=owner)
