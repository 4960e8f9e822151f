"""Login at an OpenID Connect provider: authorization code with PKCE, state and nonce (OpenID
Connect Core 1.0, RFC 7636, RFC 9207, and the recommendations of RFC 9700).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from typing_extensions import override

from aitne.core.errors import NotAuthenticated, SetupError, Unavailable
from aitne.core.ports.identity_source import (
    Identity,
    LoginDenied,
    RedirectSource,
    require_group,
    role_by_groups,
)
from aitne.core.settings import Settings
from aitne.core.users.auth_settings import OidcSettings, is_loopback
from aitne.local_system.password_from_file import read_password

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Accepted algorithms of signatures: asymmetric ones with the provider's key. `none` and algorithms
with a shared secret are not accepted.
"""
_LEEWAY_S = 60
_MOST_BYTES = 1 << 20


class OidcIdentity(RedirectSource):
    """Identity source that logs in at an OpenID Connect provider. The provider's endpoints are read
    from its discovery document at the first use.
    """

    name = "oidc"

    def __init__(self, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._settings: OidcSettings = settings.auth.oidc
        self.label = self._settings.label
        self._clock = clock
        self._secret = _read_client_secret(self._settings)
        self._described: dict[str, Any] | None = None
        self._keys: KeySet | None = None
        ca_file = self._settings.ca_file
        self._trust = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))

    @override
    async def begin_login(self, state: str, redirect_uri: str) -> tuple[str, Mapping[str, Any]]:
        endpoint = str((await self._read_discovery_document())["authorization_endpoint"])
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._settings.client_id,
                "redirect_uri": redirect_uri,
                "scope": " ".join(self._settings.scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge.rstrip(b"=").decode(),
                "code_challenge_method": "S256",
            }
        )
        mark = "&" if "?" in endpoint else "?"
        return f"{endpoint}{mark}{query}", {"nonce": nonce, "verifier": verifier}

    @override
    async def finish_login(
        self, kept: Mapping[str, Any], redirect_uri: str, answer: Mapping[str, str]
    ) -> Identity:
        described = await self._read_discovery_document()
        issuer = answer.get("iss")
        if issuer is not None and issuer != self._settings.issuer:
            raise NotAuthenticated("The answer came from another provider than the requested one.")
        if "error" in answer:
            raise LoginDenied(
                f"The provider did not log you in: {answer['error'][:100]}.", "denied"
            )
        tokens = await self._exchange_code(described, answer.get("code", ""), redirect_uri, kept)
        claims = await self._verify_id_token(described, str(tokens.get("id_token", "")))
        if not hmac.compare_digest(str(claims.get("nonce", "")), str(kept["nonce"])):
            raise NotAuthenticated("The provider's token belongs to another login.")
        user_claims = await self._add_userinfo_claims(
            described, claims, str(tokens.get("access_token", ""))
        )
        return self._to_identity(user_claims)

    def _to_identity(self, claims: Mapping[str, Any]) -> Identity:
        settings = self._settings
        name = claims.get(settings.name_claim)
        if not isinstance(name, str) or not name:
            raise LoginDenied(
                f"The provider returns no {settings.name_claim}, which is your name here. Ask an "
                "administrator.",
                "bad_name",
            )
        value = claims.get(settings.groups_claim, [])
        groups = frozenset(map(str, value)) if isinstance(value, list) else frozenset({str(value)})
        require_group(name, groups, settings.allowed_groups)
        # An address that the provider has not verified may belong to another person.
        mail = None if claims.get("email_verified") is False else claims.get(settings.mail_claim)
        display_name = claims.get(settings.display_name_claim)
        return Identity(
            name=name,
            display_name=display_name if isinstance(display_name, str) else None,
            mail=mail if isinstance(mail, str) else None,
            role=role_by_groups(groups, settings.admin_groups),
            subject=f"{settings.issuer}#{claims['sub']}",
        )

    async def _exchange_code(
        self, discovery: Mapping[str, Any], code: str, redirect_uri: str, login: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": str(login["verifier"]),
        }
        headers = {"Accept": "application/json"}
        methods = discovery.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret is not None and "client_secret_basic" in methods:
            pair = f"{quote(self._settings.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = self._settings.client_id
            if self._secret is not None:
                form["client_secret"] = self._secret
        status, tokens = await self._send_request(
            "POST", str(discovery["token_endpoint"]), data=form, headers=headers
        )
        if status != 200:
            raise NotAuthenticated(f"The provider does not accept the login code: {tokens}.")
        return tokens

    async def _verify_id_token(self, discovery: Mapping[str, Any], id_token: str) -> dict[str, Any]:
        """Return the claims of the ID token. Raises ``NotAuthenticated`` unless the provider signed
        it for this platform and it is valid now.
        """
        try:
            token = await self._decode_id_token(discovery, id_token)
            claims = dict(token.claims)
            now = int(self._clock().timestamp())
            rules = jwt.JWTClaimsRegistry(
                now=now,
                leeway=_LEEWAY_S,
                iss={"essential": True, "value": str(self._settings.issuer)},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
            )
            rules.validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            raise NotAuthenticated(f"The provider's token is invalid: {error}.") from error
        audience = claims["aud"]
        azp = claims.get("azp")
        several = isinstance(audience, list) and len(audience) > 1
        if (several or azp is not None) and azp != self._settings.client_id:
            raise NotAuthenticated("The provider's token was issued for another client.")
        return claims

    async def _decode_id_token(self, discovery: Mapping[str, Any], id_token: str) -> jwt.Token:
        if self._keys is not None:
            try:
                return jwt.decode(id_token, self._keys, algorithms=_ALGORITHMS)
            except (JoseError, ValueError):
                self._keys = (
                    None  # the provider may have changed its keys: they are read again, once
                )
        _, key_set = await self._send_request("GET", str(discovery["jwks_uri"]))
        keys = KeySet.import_key_set(key_set)  # type: ignore[arg-type]
        token = jwt.decode(id_token, keys, algorithms=_ALGORITHMS)
        self._keys = keys
        return token

    async def _add_userinfo_claims(
        self, discovery: Mapping[str, Any], claims: Mapping[str, Any], access_token: str
    ) -> Mapping[str, Any]:
        """Return the claims, completed by those of the userinfo endpoint if some are missing and
        the endpoint answers for the same user (``sub``).
        """
        settings = self._settings
        claim_names = [settings.name_claim, settings.display_name_claim, settings.mail_claim]
        if settings.allowed_groups or settings.admin_groups:
            claim_names.append(settings.groups_claim)
        endpoint = discovery.get("userinfo_endpoint")
        if all(name in claims for name in claim_names) or endpoint is None or not access_token:
            return claims
        status, userinfo = await self._send_request(
            "GET", str(endpoint), headers={"Authorization": f"Bearer {access_token}"}
        )
        if status != 200 or userinfo.get("sub") != claims["sub"]:
            return claims
        return {**userinfo, **claims}

    async def probe(self) -> None:
        """Fetch the provider's discovery document. Raises ``Unavailable`` if it does not answer or
        describes another provider.
        """
        await self._read_discovery_document()

    async def _read_discovery_document(self) -> dict[str, Any]:
        if self._described is None:
            issuer = str(self._settings.issuer)
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            status, description = await self._send_request("GET", url)
            endpoints = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if (
                status != 200
                or description.get("issuer") != issuer
                or not all(map(description.get, endpoints))
            ):
                named = description.get("issuer")
                reason = f"{url} does not describe the provider {issuer}"
                if status == 200 and isinstance(named, str) and named != issuer:
                    reason += f", but {named[:200]!r}; if that is the provider, set auth.oidc.issuer to exactly this"
                raise self._make_no_answer_error(reason)
            self._described = description
        return self._described

    async def _send_request(
        self, method: str, url: str, **options: Any
    ) -> tuple[int, dict[str, Any]]:
        here = is_loopback(urlsplit(url).hostname)
        proxy = None if here else self._settings.proxy
        try:
            async with (
                httpx.AsyncClient(
                    verify=self._trust,
                    timeout=self._settings.timeout_s,
                    trust_env=False,
                    proxy=proxy,
                ) as client,
                client.stream(method, url, **options) as answer,
            ):
                body = b""
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise self._make_no_answer_error(f"the answer of {url} is too large")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            if proxy is not None:
                reason += f" (by the proxy {proxy}, auth.oidc.proxy)"
            elif not here and isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                reason += "; if only a proxy reaches it from this machine, set auth.oidc.proxy"
            raise self._make_no_answer_error(reason) from error
        try:
            document = httpx.Response(200, content=body).json()
        except ValueError as error:
            raise self._make_no_answer_error(f"{url} does not answer in JSON") from error
        if not isinstance(document, dict):
            raise self._make_no_answer_error(f"{url} does not answer with an object")
        return answer.status_code, document

    def _make_no_answer_error(self, reason: str) -> Unavailable:
        return Unavailable(f"The provider {self._settings.issuer} cannot be queried: {reason}.")


def _read_client_secret(settings: OidcSettings) -> str | None:
    if settings.client_secret_file is None:
        return None
    try:
        return read_password(settings.client_secret_file)
    except OSError as error:
        raise SetupError(
            f"The provider's client_secret_file {settings.client_secret_file} cannot be read: "
            f"{error.strerror}."
        ) from error
