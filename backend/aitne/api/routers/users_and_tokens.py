"""Routes of user accounts and personal access tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from aitne.api.admin_views import UserQuery
from aitne.api.audit_middleware import NotesDep
from aitne.api.conditional_requests import TagsDep
from aitne.api.dependencies import Admin, PlatformDep, Reader, Writer
from aitne.api.job_query_views import (
    NewToken,
    NewUser,
    TokenList,
    TokenSecret,
    UserChanges,
    UserPage,
)
from aitne.api.routers import V1
from aitne.core.errors import InvalidInput
from aitne.core.models.base import UserName
from aitne.core.models.user import User
from aitne.services.users.login_service import OWN

router = APIRouter(prefix=V1)
Name = Annotated[UserName, Path(description="A login name.")]
WhoseTokens = Annotated[
    UserName | None, Query(description="Owner, for administrators; omitted: you.")
]


@router.get("/tokens", tags=["tokens"])
async def list_tokens(actor: Reader, platform: PlatformDep, user: WhoseTokens = None) -> TokenList:
    """List your personal access tokens, without their secrets; administrators may name another
    user."""
    return TokenList(items=list(await platform.users.list_tokens(actor, owner=user)))


@router.post("/tokens", status_code=201, tags=["tokens"])
async def create_token(
    body: NewToken, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> TokenSecret:
    """Create a personal access token. Its secret is shown only once. Requires a login of the portal,
    or an administrator's token with the scope `admin`."""
    token, secret = await platform.users.create_token(
        actor,
        name=body.name,
        scopes=frozenset(body.scopes),
        lifetime_s=body.expires_in,
        owner=body.user,
    )
    notes |= {"token": token.id, "name": token.name, "owner": token.owner}
    return TokenSecret(**dict(token), token=secret)


@router.delete("/tokens/{token_id}", status_code=204, tags=["tokens"])
async def delete_token(
    token_id: Annotated[str, Path(max_length=100, description="The id of the token.")],
    actor: Writer,
    platform: PlatformDep,
    notes: NotesDep,
    user: WhoseTokens = None,
) -> None:
    """Revoke a token. Later requests with it are rejected, and its owner's streams and terminals
    end. A token may revoke itself; otherwise as for its creation."""
    token = await platform.users.delete_token(actor, token_id, owner=user)
    notes["name"] = token.name
    await platform.close_connections_of_user(user or actor.name)


@router.get("/users", tags=["users"])
async def list_users(
    where: Annotated[UserQuery, Query()], actor: Admin, platform: PlatformDep
) -> UserPage:
    """List all accounts; administrators only."""
    page = await platform.users.list(
        actor,
        where.to_search(),
        sort=where.sort,
        descending=where.order == "desc",
        cursor=where.cursor,
        limit=where.limit,
    )
    return UserPage(items=list(page.items), next_cursor=page.next_cursor, total=page.total)


@router.post("/users", status_code=201, tags=["users"])
async def create_user(
    body: NewUser, actor: Admin, platform: PlatformDep, response: Response
) -> User:
    """Create an account; administrators only."""
    user = await platform.users.create(
        actor,
        name=body.name,
        password=body.password,
        display_name=body.display_name,
        mail=body.mail,
        role=body.role,
        default_project=body.default_project,
    )
    response.headers["Location"] = f"/api/v1/users/{user.name}"
    return user


@router.get("/users/{name}", tags=["users"])
async def get_user(name: Name, actor: Reader, platform: PlatformDep, tags: TagsDep) -> User:
    """Return your own account, or any account as an administrator."""
    return tags.set_etag(await platform.users.get(actor, name))


@router.patch("/users/{name}", tags=["users"])
async def update_user(
    name: Name, body: UserChanges, actor: Writer, platform: PlatformDep, tags: TagsDep
) -> User:
    """Change an account. A new password, or disabling the account, ends its logins and
    terminals."""
    sources = platform.settings.auth.sources
    if body.source is not None and body.source != OWN and body.source not in sources:
        raise InvalidInput.field(
            "source",
            "is not an identity source of this platform",
            value=body.source,
            allowed=", ".join(sources),
        )
    changed = await platform.users.update(
        actor,
        name,
        display_name=body.display_name,
        role=body.role,
        disabled=body.disabled,
        password=body.password,
        current_password=body.current_password,
        source=body.source,
        check=tags.check_if_match,
    )
    if changed.disabled or body.password is not None:
        await platform.close_connections_of_user(name)
    return tags.set_etag(changed)
