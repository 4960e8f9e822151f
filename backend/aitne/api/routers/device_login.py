"""Routes of the login of programs without a browser (RFC 8628)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from aitne.api.audit_middleware import NotesDep
from aitne.api.dependencies import (
    Limited,
    MetricsDep,
    PlatformDep,
    Writer,
    get_rate_limits,
    get_request_origin,
)
from aitne.api.job_query_views import TokenSecret
from aitne.api.routers import V1
from aitne.core.errors import AitneError, AuthorizationPending, NotAuthenticated
from aitne.core.models.access_token import Scope
from aitne.core.models.base import Flag, Frozen, Seconds, Strict
from aitne.core.models.sign_in_records import DeviceLoginRequest
from aitne.services.users.authentication_service import address_lockout_key

router = APIRouter(prefix=V1, tags=["auth"])


class DeviceLoginStart(Strict):
    """A program that wants to log in."""

    name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="Name of the token to create, such as the program and its machine.",
    )


class DeviceLoginCodes(Frozen):
    """Codes of a login that has begun, with the names of RFC 8628."""

    device_code: str
    """Secret of the program, to be exchanged for a token."""
    user_code: str
    """Code that the program shows and the user confirms."""
    verification_uri: str
    """Page of the portal where the code is confirmed."""
    verification_uri_complete: str
    """The same page, for clients of earlier releases. No address fills the code in."""
    expires_in: int
    """Seconds for which the codes are valid."""
    interval: int
    """Seconds to wait between two requests for the token."""


class DeviceCodeUse(Strict):
    """The device code of a program that waits for its token."""

    device_code: str = Field(min_length=1, max_length=2_000, description="The program's secret.")


class DeviceLoginAnswer(Strict):
    """Decision of a user about the login of a program: confirm or refuse it."""

    user_code: str = Field(
        min_length=1, max_length=40, description="The code, as the program shows it."
    )
    approve: Flag = Field(True, description="False refuses the login.")
    scopes: list[Scope] = Field(
        [Scope.READ, Scope.WRITE], min_length=1, description="Scopes of the program's token."
    )
    expires_in: Annotated[
        Seconds | None,
        Field(description="Validity of the token, such as 30d; null: as in `token_lifetime_s`."),
    ] = None


class DeviceLoginCode(Strict):
    """The code that a program shows."""

    user_code: str = Field(
        min_length=1, max_length=40, description="The code, as the program shows it."
    )


class DeviceLoginView(DeviceLoginRequest):
    """A program that wants to log in, and what it gets."""

    token_lifetime_s: int = Field(description="Validity of its token, in seconds.")


@router.post("/auth/device")
async def begin_device_login(
    body: DeviceLoginStart, request: Request, platform: PlatformDep, _: Limited
) -> DeviceLoginCodes:
    """Begin the login of a program: its user confirms the code in the portal."""
    login = await platform.device_logins.begin_login(body.name, get_request_origin(request))
    return DeviceLoginCodes(
        device_code=login.device_code,
        user_code=login.user_code,
        verification_uri=login.verification_url,
        verification_uri_complete=login.verification_url,
        expires_in=login.expires_in_s,
        interval=login.interval_s,
    )


@router.post("/auth/device/token")
async def redeem_device_login(
    body: DeviceCodeUse, request: Request, platform: PlatformDep, metrics: MetricsDep
) -> TokenSecret:
    """Return the program's token, once, after its user has confirmed the code.

    Until then the answer is 409 with the code `authorization_pending`, or 429 if requests follow
    each other faster than the interval.
    """
    try:
        get_rate_limits(request).device_polls.take_token(
            platform.device_logins.get_serial_number(body.device_code)
        )
        token, secret = await platform.device_logins.redeem(body.device_code)
    except AuthorizationPending:
        raise
    except AitneError as error:
        metrics.count_rejected_credential("device", error)
        if isinstance(error, NotAuthenticated):  # only a valid code has a limit of its own
            get_rate_limits(request).logins.take_token(
                address_lockout_key(get_request_origin(request).address)
            )
        raise
    await platform.audit.record(
        actor=token.owner,
        action="redeem_device_login",
        object=token.id,
        outcome="allowed",
        address=get_request_origin(request).address,
        details={"name": token.name, "scopes": sorted(token.scopes)},
    )
    return TokenSecret(**dict(token), token=secret)


@router.post("/auth/device/lookup")
async def look_up_device_login(
    body: DeviceLoginCode, actor: Writer, platform: PlatformDep
) -> DeviceLoginView:
    """Return which program shows this code, from where and since when, before you confirm it."""
    request = await platform.device_logins.get_request(actor, body.user_code)
    return DeviceLoginView(
        **dict(request), token_lifetime_s=platform.device_logins.token_lifetime_s
    )


@router.post("/auth/device/confirm", status_code=204)
async def confirm_device_login(
    body: DeviceLoginAnswer, actor: Writer, platform: PlatformDep, notes: NotesDep
) -> None:
    """Confirm or refuse the login of the program that shows this code. If you confirm, the program
    gets an access token of yours.

    A confirmation requires a login of the portal, and that you have entered your password or a code
    since you have seen the request; otherwise it answers 403 with the code
    `reauthentication_required`.
    """
    notes |= {"approve": body.approve, "scopes": sorted(body.scopes)}
    if body.approve:
        await platform.device_logins.confirm(
            actor, body.user_code, scopes=frozenset(body.scopes), lifetime_s=body.expires_in
        )
    else:
        await platform.device_logins.deny(actor, body.user_code)
