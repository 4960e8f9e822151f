"""The user's secrets: values that jobs get as environment variables."""

from __future__ import annotations

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from aitne.client.api_session import ApiSession


class SecretRecord(Record):
    """A secret without its value."""

    name: str
    created_at: datetime
    updated_at: datetime


class Secrets:
    """Operations on the user's secrets, as ``client.secrets``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def list(self) -> list[SecretRecord]:
        """Return the secrets by name; values are never shown."""
        return [
            SecretRecord(item) for item in self._session.request_json("GET", "/secrets")["items"]
        ]

    def put(self, name: str, value: str) -> SecretRecord:
        """Store a secret, or replace its value. Raises ``InvalidInput``, or ``Conflict`` if the
        user has too many."""
        path = f"/secrets/{quote_segment(name)}"
        return SecretRecord(
            self._session.request_json("PUT", path, body={"value": value}, repeatable=True)
        )

    def delete(self, name: str) -> None:
        """Delete a secret. Raises ``NotFound``."""
        self._session.request_json("DELETE", f"/secrets/{quote_segment(name)}", repeatable=True)
