"""Routes of the user's own account (logins, password, second factor), and of administrators for
other accounts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from aitne.api.account_views import (
    AccountView,
    CodeUse,
    EnrolmentView,
    FactorView,
    IdentityProof,
    LoginProof,
    NewPassword,
    ProtectionView,
    RecoveryCodes,
    ResetLink,
    RevokedSignIns,
    SignInList,
    SignInView,
)
from aitne.api.dependencies import Admin, PlatformDep, Reader, Writer, cookie_name
from aitne.api.job_query_views import Impersonation
from aitne.api.routers import V1
from aitne.api.routers.auth import make_enrolment_view
from aitne.api.routers.users_and_tokens import Name
from aitne.bootstrap.platform_services import PlatformServices
from aitne.core.models.base import AskedFlag
from aitne.services.users.login_service import OWN
from aitne.services.users.second_factor import FactorState

router = APIRouter(prefix=V1)


@router.get("/account", tags=["account"])
async def get_account(actor: Reader, platform: PlatformDep) -> AccountView:
    """Return your account and how it is protected."""
    account = await platform.account.get(actor)
    user = account.user
    return AccountView(
        name=user.name,
        display_name=user.display_name,
        mail=user.mail,
        role=user.role,
        default_project=user.default_project,
        created_at=user.created_at,
        source=user.source or OWN,
        has_password=account.has_password,
        second_factor=_make_factor_view(account.factor, platform),
    )


@router.get("/account/sign-ins", tags=["account"])
async def list_sign_ins(actor: Reader, request: Request, platform: PlatformDep) -> SignInList:
    """List the browsers in which you are logged in."""
    sign_ins = await platform.account.sign_ins(actor)
    current = await platform.account.find_current_sign_in(_find_login_cookie(request, platform))
    return SignInList(
        items=[SignInView(**dict(sign_in), current=sign_in.id == current) for sign_in in sign_ins]
    )


@router.delete("/account/sign-ins", tags=["account"])
async def revoke_sign_ins(
    actor: Writer,
    request: Request,
    platform: PlatformDep,
    keep_current: Annotated[
        AskedFlag, Query(description="Keep the current browser logged in.")
    ] = True,
) -> RevokedSignIns:
    """Log out in all browsers. Your terminals and your access to sessions end. Requires a login of
    the portal, or an administrator's token with the scope `admin`."""
    keep = _find_login_cookie(request, platform) if keep_current else None
    count = await platform.account.revoke_all(actor, keep=keep)
    await platform.close_connections_of_user(actor.name)
    return RevokedSignIns(revoked=count)


@router.delete("/account/sign-ins/{sign_in_id}", status_code=204, tags=["account"])
async def revoke_sign_in(
    sign_in_id: Annotated[
        str, Path(max_length=100, description="Id of the sign-in, from the list.")
    ],
    actor: Writer,
    platform: PlatformDep,
) -> None:
    """Log out one browser. Your terminals end, and your sessions ask for a login again. Requires a
    login of the portal, or an administrator's token with the scope `admin`."""
    await platform.account.revoke_sign_in(actor, sign_in_id)
    await platform.close_connections_of_user(actor.name)


@router.post("/account/password", status_code=204, tags=["account"])
async def change_password(
    body: NewPassword, actor: Writer, request: Request, platform: PlatformDep
) -> None:
    """Set your password. All other logins end, with your terminals and access to your sessions."""
    await platform.account.change_password(
        actor,
        body.password,
        body.current_password,
        keep=_find_login_cookie(request, platform),
        delete_tokens=body.delete_tokens,
    )
    await platform.close_connections_of_user(actor.name)


@router.post("/account/reauthenticate", status_code=204, tags=["account"])
async def reauthenticate(
    body: LoginProof, actor: Writer, request: Request, platform: PlatformDep
) -> None:
    """Confirm your identity. New tokens, webhooks, mail addresses and second factors require that.

    A login is sufficient for 15 minutes. Afterwards these requests answer 403 with the code
    `reauthentication_required`.
    """
    await platform.account.reauthenticate(
        actor,
        _find_login_cookie(request, platform),
        code=body.code,
        password=body.password,
        link=body.link,
    )


@router.post("/account/second-factor", tags=["account"])
async def enrol_second_factor(actor: Writer, platform: PlatformDep) -> EnrolmentView:
    """Start the setup of a second factor. It is not required until it is confirmed."""
    return make_enrolment_view(await platform.account.enrol_factor(actor))


@router.post("/account/second-factor/confirm", tags=["account"])
async def confirm_second_factor(
    body: CodeUse, actor: Writer, platform: PlatformDep
) -> RecoveryCodes:
    """Activate the second factor with a first code."""
    return RecoveryCodes(recovery_codes=await platform.account.confirm_factor(actor, body.code))


@router.post("/account/second-factor/recovery-codes", tags=["account"])
async def renew_recovery_codes(
    body: CodeUse, actor: Writer, platform: PlatformDep
) -> RecoveryCodes:
    """Create new recovery codes. The previous ones become invalid."""
    codes = await platform.account.renew_recovery_codes(actor, body.code)
    return RecoveryCodes(recovery_codes=codes)


@router.post("/account/second-factor/disable", status_code=204, tags=["account"])
async def disable_second_factor(body: IdentityProof, actor: Writer, platform: PlatformDep) -> None:
    """Remove the second factor, with a code or your password as proof."""
    await platform.account.disable_factor(actor, code=body.code, password=body.password)


@router.get("/users/{name}/protection", tags=["users"])
async def get_protection(name: Name, actor: Admin, platform: PlatformDep) -> ProtectionView:
    """Return how an account is protected, and whether it is locked."""
    protection = await platform.account.protection(actor, name)
    return ProtectionView(
        source=protection.source,
        has_password=protection.has_password,
        second_factor=protection.second_factor,
        locked_until=protection.locked_until,
        sign_ins=protection.sign_ins,
    )


@router.post("/users/{name}/reset-link", status_code=201, tags=["users"])
async def create_reset_link(name: Name, actor: Admin, platform: PlatformDep) -> ResetLink:
    """Create a link that sets a new password for the account, once."""
    link = await platform.account.create_reset_link(actor, name)
    return ResetLink(url=link.url, expires_at=link.expires_at)


@router.post("/users/{name}/unlock", status_code=204, tags=["users"])
async def unlock_user(name: Name, actor: Admin, platform: PlatformDep) -> None:
    """Unlock an account after too many failed logins."""
    await platform.account.unlock(actor, name)


@router.post("/users/{name}/reset-second-factor", status_code=204, tags=["users"])
async def reset_second_factor(name: Name, actor: Admin, platform: PlatformDep) -> None:
    """Remove a user's second factor, and end the user's logins."""
    await platform.account.reset_factor(actor, name)
    await platform.close_connections_of_user(name)


@router.delete("/users/{name}/sign-ins", tags=["users"])
async def sign_out_user(name: Name, actor: Admin, platform: PlatformDep) -> RevokedSignIns:
    """End all logins of a user, with the user's terminals and access to sessions."""
    count = await platform.account.sign_out(actor, name)
    await platform.close_connections_of_user(name)
    return RevokedSignIns(revoked=count)


@router.post("/users/{name}/impersonate", tags=["users"])
async def impersonate_user(
    name: Name, actor: Admin, request: Request, platform: PlatformDep
) -> Impersonation:
    """Act as another user, for an hour at most, in this browser."""
    until = await platform.account.impersonate(actor, name, _find_login_cookie(request, platform))
    return Impersonation(impersonator=actor.name, until=until)


def _find_login_cookie(request: Request, platform: PlatformServices) -> str | None:
    """Return the value of the request's login cookie; None if it was authenticated by a token."""
    if request.headers.get("authorization"):
        return None
    return request.cookies.get(cookie_name(platform.settings))


def _make_factor_view(state: FactorState, platform: PlatformServices) -> FactorView:
    return FactorView(
        enabled=state.enabled,
        required=state.required,
        policy=platform.settings.auth.second_factor,
        confirmed_at=state.confirmed_at,
        recovery_codes_left=state.recovery_codes_left,
    )
