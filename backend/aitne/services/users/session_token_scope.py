"""Session tokens: their owners, and the jobs that they give access to."""

from __future__ import annotations

from uuid import UUID

from aitne.core.errors import NotAllowed, NotAuthenticated
from aitne.core.models.job import JobFilter
from aitne.core.models.user import Actor, User
from aitne.core.users.permissions import describe_session_refusal
from aitne.services.platform.shared_secrets import hash_secret
from aitne.store import Store


async def get_owner_and_session(store: Store, token: str) -> tuple[User, UUID]:
    """Return the owner and the ID of the session with this session token.

    Raises:
        NotAuthenticated: no session has this token any more, or its owner's account is disabled.
    """
    job = await store.find_session_by_token(hash_secret(token))
    user = None if job is None else await store.get_user(job.owner)
    if job is None or user is None or user.disabled:
        raise NotAuthenticated(
            "The token of this session is no longer valid: the session has ended, or its owner logged "
            "out everywhere or changed the password since it started. Start a new session, or use a "
            "personal access token."
        )
    return user, job.id


def restrict_to_own_jobs(actor: Actor, job_filter: JobFilter) -> JobFilter:
    """Restrict the filter to the actor's own jobs if the actor uses a session token; otherwise
    return it unchanged.

    Raises:
        NotAllowed: the filter of an actor with a session token selects the jobs of another user.
    """
    if actor.session is None:
        return job_filter
    if job_filter.owner not in (None, actor.name):
        raise NotAllowed(describe_session_refusal("show the jobs of other users"))
    return job_filter.model_copy(update={"owner": actor.name})
