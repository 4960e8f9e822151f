"""Operations on the user's preferences in the portal."""

from __future__ import annotations

from aitne.client.api_session import quote_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from aitne.client.api_session import ApiSession


class Preferences:
    """Operations on the user's preferences in the portal, as ``client.preferences``. There is one
    document for each key: portal, job_views, last_launch."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def get(self, key: str) -> dict[str, Any]:
        """Return the document stored under ``key``, or the defaults if none is stored. Raises
        ``NotFound`` for an unknown key."""
        document: dict[str, Any] = self._session.request_json(
            "GET", f"/me/preferences/{quote_segment(key)}"
        )
        return document

    def put(self, key: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the document stored under ``key`` and return it. Raises ``InvalidInput``."""
        document: dict[str, Any] = self._session.request_json(
            "PUT", f"/me/preferences/{quote_segment(key)}", body=value, repeatable=True
        )
        return document
