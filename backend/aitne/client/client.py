"""The client of the SDK: requests to one platform as one user."""

from __future__ import annotations

from aitne.client.accounts import Account, Tokens, Users
from aitne.client.administration import (
    Administration,
    Announcements,
    Audit,
    MaintenanceSwitch,
)
from aitne.client.api_session import ApiSession
from aitne.client.datasets import Datasets
from aitne.client.events import follow_events
from aitne.client.functions import Functions
from aitne.client.images import Images
from aitne.client.jobs import Jobs
from aitne.client.notifications import Notifications, Webhooks
from aitne.client.platform_discovery import Platform, find_platform
from aitne.client.preferences import Preferences
from aitne.client.projects import Projects
from aitne.client.records import CurrentUserRecord, Event
from aitne.client.secrets import Secrets
from aitne.client.sessions import Sessions
from aitne.client.storage_areas import StorageAreas
from aitne.client.templates_and_nodes import Nodes, Templates
from aitne.client.tree_upload import Trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from typing import Any, Self

    from aitne.client.transport import RequestTransport


class Client:
    """Client of one platform that acts as one user. Without arguments, the platform and the
    credential are selected as on the command line (see ``aitne.client.platform_discovery``).

    Methods raise the errors in ``aitne.core.errors`` and ``aitne.client.errors``. A client can be
    shared between threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        platform: Platform | None = None,
        transport: RequestTransport | None = None,
    ) -> None:
        self.platform = platform or find_platform(url, token, data_dir)
        self._session = ApiSession(self.platform, transport=transport)
        self.jobs = Jobs(self._session)
        self.sessions = Sessions(self._session, self.jobs)
        self.templates = Templates(self._session)
        self.nodes = Nodes(self._session)
        self.tokens = Tokens(self._session)
        self.users = Users(self._session)
        self.account = Account(self._session)
        self.projects = Projects(self._session)
        self.images = Images(self._session)
        self.datasets = Datasets(self._session)
        self.trees = Trees(self._session)
        self.functions = Functions(self._session, self.jobs, self.trees)
        self.storage = StorageAreas(self._session)
        self.admin = Administration(self._session)
        self.audit = Audit(self._session)
        self.announcements = Announcements(self._session)
        self.maintenance = MaintenanceSwitch(self._session)
        self.preferences = Preferences(self._session)
        self.secrets = Secrets(self._session)
        self.notifications = Notifications(self._session)
        self.webhooks = Webhooks(self._session)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the client keeps no connection open between requests."""

    def __repr__(self) -> str:
        return f"Client({self.platform.url!r})"

    def me(self) -> CurrentUserRecord:
        """Return the user that this client acts as, with the user's projects and a description of
        the platform."""
        return CurrentUserRecord(self._session.request_json("GET", "/me"))

    def ready(self) -> dict[str, Any]:
        """Return the state of the platform's parts (``/readyz``). Raises ``Unavailable`` while the
        platform is not ready."""
        answer: dict[str, Any] = self._session.request_json("GET", "/readyz")
        return answer

    def events(self, after: int | None = None) -> Iterator[Event]:
        """Yield the events that the user may see, without end. ``after`` is the ID of an event:
        later events are yielded; None: events from now on.
        """
        return (event for event in follow_events(self._session, after) if event is not None)
