"""Trees: working trees that users upload for jobs, which run in a copy of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from datetime import datetime, timedelta
from functools import partial

from aitne.core.errors import FieldProblem
from aitne.core.models.job_source import TreeLimits, TreeStatus, TreeUse
from aitne.core.models.user import Actor
from aitne.core.ports.tree_storage import TreeStorage
from aitne.core.storage.storage_and_container_settings import TreeSettings
from aitne.core.tree_document import MOST_ENTRIES
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.store import Store

EXPIRE_EVERY = timedelta(hours=1)
UNUSED_S = 3_600.0
"""Seconds since its upload or last use after which a tree that no live job uses may be deleted to
make room for another.
"""


class TreeService:
    """Service that stores users' trees, and passes them only to the owner's jobs."""

    def __init__(
        self,
        store: Store,
        trees: TreeStorage,
        settings: TreeSettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._trees = trees
        self._settings = settings
        self._clock = clock
        self._turns: dict[str, asyncio.Lock] = {}
        """Lock for each user: uploads of one user are processed one after the other, so that they
        occupy no more disk space than one.
        """
        self._expired_at: datetime | None = None

    def limits(self) -> TreeLimits:
        """Return the limits of the size and number of files of a tree."""
        return TreeLimits(
            max_files=MOST_ENTRIES,
            max_bytes=self._settings.max_bytes,
            quota_bytes=self._settings.quota_bytes,
        )

    async def receive_file_list(
        self, actor: Actor, digest: str, chunks: AsyncIterator[bytes]
    ) -> TreeStatus:
        """Store the list of a tree's files, remove the expired trees, and return which file
        contents are still missing.

        Raises:
            NotAllowed: the credential may not create jobs.
            TreeError: the list is invalid, does not have the digest ``digest``, or the tree is too
                large.
            Conflict: the actor's trees together would exceed the quota.
            Unavailable: the tree cannot be stored.
        """
        _require_creator(actor)
        async with self._get_lock(actor.name):
            now = self._clock()
            if self._expired_at is None or now - self._expired_at > EXPIRE_EVERY:
                self._expired_at = now
                await self._trees.remove_unused_trees(
                    await self._in_use(), self._settings.keep_days * 86_400
                )
            make_room = partial(self._make_room, actor.name)
            return await self._trees.receive_document(actor.name, digest, chunks, make_room)

    async def receive_blobs(self, actor: Actor, digest: str, chunks: AsyncIterator[bytes]) -> None:
        """Store file contents of a tree whose list was stored before.

        Raises:
            NotAllowed: the credential may not create jobs.
            NotFound: the actor has no such tree.
            TreeError: a content does not belong to this tree, or its SHA-256 digest is wrong.
            Unavailable: the contents cannot be stored.
        """
        _require_creator(actor)
        async with self._get_lock(actor.name):
            await self._trees.receive_blobs(actor.name, digest, chunks)

    async def find(self, owner: str, digest: str) -> tuple[TreeUse | None, list[FieldProblem]]:
        """Look up the owner's uploaded working tree that a job names by its digest. Returns the
        tree and the problems with it; if there are no problems, the tree is not None.
        """
        use = await self._trees.find_tree(owner, digest)
        if use is not None:
            return use, []
        message = (
            "you have no such tree, or it has expired; upload it with `aitne apply FILE --sync DIR`"
        )
        return None, [FieldProblem("tree", message, digest)]

    async def content(self, owner: str, digest: str) -> tuple[int, Iterator[bytes]] | None:
        """Return the length and the parts of the owner's tree with this digest; None if there is
        none.
        """
        return await self._trees.read_tree(owner, digest)

    def _get_lock(self, user: str) -> asyncio.Lock:
        return self._turns.setdefault(user, asyncio.Lock())

    async def _make_room(self, owner: str) -> None:
        """Remove the owner's trees that no live job uses and that were not used recently."""
        await self._trees.remove_unused_trees(await self._in_use(owner), UNUSED_S, owner=owner)

    async def _in_use(self, owner: str | None = None) -> Collection[tuple[str, str]]:
        """Return owner and digest of each tree that a live job uses: a job of ``owner``, or of any
        user if that is None.
        """
        live = await self._store.list_live_jobs(owner=owner)
        return {(job.owner, job.spec.tree.digest) for job in live if job.spec.tree is not None}


def _require_creator(actor: Actor) -> None:
    project = actor.user.default_project
    require_permission(PolicyAction.JOB_CREATE, actor, "project", project, project=project)
