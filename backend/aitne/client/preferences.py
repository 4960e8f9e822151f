"""Operations on the user's preferences in the portal."""

from __future__ import annotations

from aitne.client.session import segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from aitne.client.session import ApiSession


class Preferences:
    """Operations on preferences, as ``client.preferences``: a document for each key (portal,
    job_views, last_launch)."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, key: str) -> dict[str, Any]:
        """Return the stored document, or the defaults if none is stored. Raises ``NotFound`` if
        there is no such key."""
        document: dict[str, Any] = self._session.json("GET", f"/me/preferences/{segment(key)}")
        return document

    def put(self, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the stored document. Raises ``InvalidInput``."""
        document: dict[str, Any] = self._session.json(
            "PUT", f"/me/preferences/{segment(key)}", body=value, repeatable=True
        )
        return document
