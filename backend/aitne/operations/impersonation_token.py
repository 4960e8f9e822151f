"""Requests to the platform as another user, by a token that exists for as long as they last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aitne.client import Client, Platform

LIFETIME = "2h"


@contextmanager
def acting_as_user(
    administrator: Client, user: str | None, purpose: str, lifetime: str = LIFETIME
) -> Iterator[Client]:
    """Provide a client that acts as ``user`` (None: as the given client's own user). The token that is
    created for it is revoked at the end; it expires after ``lifetime`` in any case.

    Raises ``AitneError`` if the given client's user may not create tokens for ``user``.
    """
    if user is None:
        yield administrator
        return
    token = administrator.tokens.create(f"aitne {purpose}", user=user, expires_in=lifetime)
    known = administrator.platform
    client = Client(
        platform=Platform(
            known.url,
            token.token,
            data_dir=known.data_dir,
            source=known.source,
            ca_file=known.ca_file,
        )
    )
    try:
        yield client
    finally:
        # Only its owner may revoke a token.
        client.tokens.revoke(token.id)
