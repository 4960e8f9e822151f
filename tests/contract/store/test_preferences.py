from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aitne.core.errors import NotFound
from aitne.core.models.project import Project
from aitne.core.models.user import User
from aitne.store import Store


async def test_each_user_has_their_own(store: Store) -> None:
    for name in ("ada", "bob"):
        user = User(name=name, default_project=name, created_at=datetime.now(UTC))
        await store.create_user(user, None, Project(name=name, created_at=user.created_at))
    await store.save_preference("ada", "portal", {"theme": "dark"})
    await store.save_preference("ada", "portal", {"theme": "light"})
    await store.save_preference("ada", "job_views", {"columns": ["name"]})
    assert await store.find_preference("ada", "portal") == {"theme": "light"}
    assert await store.find_preference("ada", "job_views") == {"columns": ["name"]}
    assert await store.find_preference("bob", "portal") is None


async def test_preference_of_unknown_user_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.save_preference("nobody", "portal", {})
