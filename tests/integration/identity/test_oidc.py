"""Logins by an OpenID provider: oidc-provider, which is certified, on a port of its own."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pyotp
import pytest

from aitne.core.errors import NotAuthenticated, Unavailable
from aitne.core.models.user import Role
from aitne.core.settings import Settings
from tests.support import realtime
from tests.support.certificates import Authority
from tests.support.forward_proxy import ForwardProxy, listening
from tests.support.oidc import SECRET, Provider, openid_provider
from tests.support.requirements import lacking
from tests.support.stage import Stage, open_stage

pytestmark = realtime.PROCESSES

try:
    from aitne.adapters.identity.oidc import OidcIdentity
except ImportError:
    joserfc = False
else:
    joserfc = True

START, CALLBACK = "/api/v1/auth/oidc/start", "/api/v1/auth/oidc/callback"
REDIRECT_URI = f"http://portal.test:8000{CALLBACK}"
Make = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    if not joserfc:
        lacking("oidc", "joserfc is not installed: pip install aitne[oidc]")
    with openid_provider(REDIRECT_URI) as found:
        yield found


@pytest.fixture
def known(provider: Provider, tmp_path: Path) -> dict[str, Any]:
    secret = tmp_path / "client-secret"
    secret.write_text(SECRET + "\n")
    return {
        "issuer": provider.issuer,
        "client_secret_file": secret,
        "scopes": ["openid", "profile", "email", "groups"],
        "label": "University login",
        "timeout_s": 5.0,
    }


@pytest.fixture
def stage_of(tmp_path: Path, blank: Path) -> Make:
    @asynccontextmanager
    async def make(oidc: dict[str, Any], **auth: Any) -> AsyncIterator[Stage]:
        folder = tmp_path / "stage"
        folder.mkdir()
        settings = {"sources": ["password", "oidc"], "oidc": oidc, **auth}
        async with open_stage(
            folder, blank, lambda all_, clock: [OidcIdentity(all_, clock)], auth=settings
        ) as stage:
            # The provider signs for the real time.
            stage.clock.now = datetime.now(UTC)
            yield stage

    return make


async def log_in(
    client: httpx.AsyncClient, provider: Provider, person: str, next_path: str = "/jobs"
) -> httpx.Response:
    """Log in with all redirects, as a browser does; return the platform's last answer."""
    begun = await client.get(START, params={"next": next_path})
    assert begun.status_code == 302, begun.text
    return await client.get(provider.answer(begun.headers["location"], person))


async def test_from_the_button_to_the_page_that_was_wanted(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known | {"admin_groups": ["operators"]}) as stage, stage.client() as client:
        sources = (await client.get("/api/v1/auth/sources")).json()
        assert sources["buttons"] == [{"name": "oidc", "label": "University login", "url": START}]
        begun = await client.get(START, params={"next": "/jobs?q=1"})
        query = parse_qs(urlsplit(begun.headers["location"]).query)
        assert query["code_challenge_method"] == ["S256"]
        assert len(query["state"][0]) > 40
        assert len(query["nonce"][0]) > 40
        done = await client.get(provider.answer(begun.headers["location"], "id-ada"))
        assert (done.status_code, done.headers["location"]) == (
            302,
            "http://portal.test:8000/jobs?q=1",
        )
        me = (await client.get("/api/v1/me")).json()
        assert (me["user"]["name"], me["user"]["role"]) == ("ada", "admin")
        user = await stage.store.get_user("ada")
        assert (user.source, user.mail, user.display_name) == (
            "oidc",
            "ada@example.org",
            "Ada Lovelace",
        )


async def test_an_address_that_nobody_checked_is_not_taken(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known) as stage, stage.client() as client:
        await log_in(client, provider, "id-bob")
        assert (await stage.store.get_user("bob")).mail is None


@pytest.mark.parametrize(
    ("person", "settings", "why"),
    [
        ("nobody", {}, "denied"),
        ("id-odd", {}, "bad_name"),
        ("id-eve", {"allowed_groups": ["vision"]}, "not_in_group"),
    ],
)
async def test_rejected_oidc_login_reports_reason(
    provider: Provider,
    known: dict[str, Any],
    stage_of: Make,
    person: str,
    settings: dict[str, Any],
    why: str,
) -> None:
    async with stage_of(known | settings) as stage, stage.client() as client:
        done = await log_in(client, provider, person)
        assert done.headers["location"] == f"http://portal.test:8000/login?failed={why}"
        assert (await client.get("/api/v1/me")).status_code == 401
        assert stage.cookie not in client.cookies


async def test_a_name_that_changes_hands_at_the_provider_opens_nothing(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known) as stage:
        await stage.add_user("bob")
        for person, end in (
            ("id-ada", "/jobs"),
            ("id-other-ada", "/login?failed=name_taken"),
            ("id-bob", "/login?failed=name_taken"),
            ("id-ada", "/jobs"),
        ):
            async with stage.client() as client:
                done = await log_in(client, provider, person)
                assert done.headers["location"] == f"http://portal.test:8000{end}"


async def test_an_answer_is_for_one_login_of_one_browser(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    failed = "http://portal.test:8000/login?failed=not_authenticated"
    async with stage_of(known) as stage:
        async with stage.client() as victim, stage.client() as other:
            begun = await other.get(START)
            answer = provider.answer(begun.headers["location"], "id-eve")
            await victim.get(START)
            # The attacker lets the victim's browser finish a login that began elsewhere.
            assert (await victim.get(answer)).headers["location"] == failed
        async with stage.client() as client:
            begun = await client.get(START)
            answer = provider.answer(begun.headers["location"], "id-ada")
            assert (await client.get(answer)).headers["location"].endswith("8000/")
            assert (await client.get(answer)).headers["location"] == failed
            begun = await client.get(START)
            answer = provider.answer(begun.headers["location"], "id-ada")
            stage.clock.move(601)
            assert (await client.get(answer)).headers["location"] == failed
        async with stage.client() as client:
            begun = await client.get(START)
            answer = provider.answer(begun.headers["location"], "id-ada")
            mixed = answer.replace("iss=", "iss=http%3A%2F%2Fevil.test%2F&was=")
            assert mixed != answer
            assert (await client.get(mixed)).headers["location"] == failed


@pytest.mark.parametrize("target", ["//evil.test/", "https://evil.test/", "/\\evil.test", "x"])
async def test_login_redirects_to_portal_only(
    provider: Provider, known: dict[str, Any], stage_of: Make, target: str
) -> None:
    async with stage_of(known) as stage, stage.client() as client:
        done = await log_in(client, provider, "id-ada", target)
        assert done.headers["location"] == "http://portal.test:8000/"


async def test_a_second_factor_that_was_set_up_is_asked_for(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    async with stage_of(known, second_factor="all") as stage:
        async with stage.client() as client:
            # The provider checks second factors of its own, so the platform asks for none.
            await log_in(client, provider, "id-ada")
            me = (await client.get("/api/v1/me")).json()
            client.headers["X-CSRF-Token"] = me["csrf_token"]
            client.headers["Origin"] = stage.settings.portal_url
            made = (await client.post("/api/v1/account/second-factor")).json()
            totp = pyotp.TOTP(made["secret"])
            code = totp.at(int(stage.clock.now.timestamp()))
            await client.post("/api/v1/account/second-factor/confirm", json={"code": code})
        async with stage.client() as client:
            done = await log_in(client, provider, "id-ada", "/jobs")
            page, _, ticket = done.headers["location"].partition("#ticket=")
            assert page == "http://portal.test:8000/login?next=%2Fjobs"
            assert (await client.get("/api/v1/me")).status_code == 401
            stage.clock.move(30)
            code = totp.at(int(stage.clock.now.timestamp()))
            body = {"ticket": ticket, "code": code}
            assert (await client.post("/api/v1/auth/totp", json=body)).status_code == 200


async def test_a_provider_that_is_away(known: dict[str, Any], stage_of: Make) -> None:
    async with stage_of(known | {"issuer": "http://127.0.0.1:1"}) as stage:
        await stage.add_user("root", Role.ADMIN)
        async with stage.client() as client:
            begun = await client.get(START)
            assert begun.headers["location"].endswith("/login?failed=unavailable")
        async with stage.browser("root") as client:
            assert (await client.get("/api/v1/me")).status_code == 200


async def test_a_wrong_secret_is_no_login(
    provider: Provider, known: dict[str, Any], stage_of: Make
) -> None:
    known["client_secret_file"].write_text("another")
    async with stage_of(known) as stage, stage.client() as client:
        done = await log_in(client, provider, "id-ada")
        assert done.headers["location"].endswith("/login?failed=not_authenticated")


class TestTokens:
    """Tokens that the provider signed, changed on the way to the platform."""

    async def begin(self, source: Any, provider: Provider) -> tuple[dict[str, Any], dict[str, str]]:
        url, kept = await source.begin_login("state", REDIRECT_URI)
        answer = urlsplit(provider.answer(url, "id-ada")).query
        return dict(kept), {name: values[0] for name, values in parse_qs(answer).items()}

    def source(self, known: dict[str, Any], tmp_path: Path, now: datetime | None = None) -> Any:
        settings = Settings(data_dir=tmp_path, auth={"sources": ["oidc"], "oidc": known})
        return OidcIdentity(settings, lambda: now or datetime.now(UTC))

    async def test_a_nonce_of_another_login(
        self, provider: Provider, known: dict[str, Any], tmp_path: Path
    ) -> None:
        source = self.source(known, tmp_path)
        kept, answer = await self.begin(source, provider)
        with pytest.raises(NotAuthenticated, match="another login"):
            await source.finish_login(kept | {"nonce": "other"}, REDIRECT_URI, answer)

    async def test_login_with_different_verifier_is_refused(
        self, provider: Provider, known: dict[str, Any], tmp_path: Path
    ) -> None:
        source = self.source(known, tmp_path)
        kept, answer = await self.begin(source, provider)
        with pytest.raises(NotAuthenticated, match="does not accept the login code"):
            await source.finish_login(kept | {"verifier": "x" * 60}, REDIRECT_URI, answer)

    async def test_a_token_of_another_time(
        self, provider: Provider, known: dict[str, Any], tmp_path: Path
    ) -> None:
        source = self.source(known, tmp_path, datetime(2040, 1, 1, tzinfo=UTC))
        kept, answer = await self.begin(source, provider)
        with pytest.raises(NotAuthenticated, match="token is invalid"):
            await source.finish_login(kept, REDIRECT_URI, answer)

    @pytest.mark.parametrize("change", ["alg_none", "payload", "audience"])
    async def test_a_token_that_was_changed(
        self, provider: Provider, known: dict[str, Any], tmp_path: Path, change: str
    ) -> None:
        source = self.source(known, tmp_path)
        kept, answer = await self.begin(source, provider)
        described = await source._read_discovery_document()
        tokens = await source._exchange_code(described, answer["code"], REDIRECT_URI, kept)
        head, body, signature = str(tokens["id_token"]).split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        if change == "audience":
            source._settings = source._settings.model_copy(update={"client_id": "another"})
            forged = f"{head}.{body}.{signature}"
        else:
            claims["sub"] = "id-root"
            body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
            none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
            forged = f"{none}.{body}." if change == "alg_none" else f"{head}.{body}.{signature}"
        with pytest.raises(NotAuthenticated, match="token is invalid"):
            await source._verify_id_token(described, forged)

    async def test_issuer_with_different_provider_is_refused(
        self, provider: Provider, known: dict[str, Any], tmp_path: Path
    ) -> None:
        source = self.source(known | {"issuer": provider.issuer + "/"}, tmp_path)
        named = re.escape(f"but {provider.issuer!r}; if that is the provider, set auth.oidc.issuer")
        with pytest.raises(Unavailable, match=f"does not describe the provider .*/, {named}"):
            await source.begin_login("state", REDIRECT_URI)


def test_a_provider_is_reached_by_https_only() -> None:
    from pydantic import ValidationError

    with pytest.raises(ValidationError, match="https"):
        Settings(auth={"oidc": {"issuer": "http://login.example.org"}})


async def test_a_provider_behind_a_proxy(tmp_path: Path) -> None:
    if not joserfc:
        lacking("oidc", "joserfc is not installed: pip install aitne[oidc]")
    issuer = "https://login.example.org/realm"
    endpoints = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    body = json.dumps({"issuer": issuer} | dict.fromkeys(endpoints, issuer)).encode()

    async def describe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    authority, proxy = Authority(tmp_path), ForwardProxy()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("login", "login.example.org"))

    def source(**oidc: Any) -> OidcIdentity:
        oidc = {"issuer": issuer, "ca_file": authority.path, "timeout_s": 5.0} | oidc
        return OidcIdentity(Settings(auth={"oidc": oidc}), lambda: datetime.now(UTC))  # type: ignore[arg-type]

    async with listening(describe, context) as port, listening(proxy.serve) as proxy.port:
        proxy.routes = {"login.example.org:443": port}
        await source(proxy=proxy.url).probe()
        assert proxy.requests == ["CONNECT login.example.org:443 HTTP/1.1"]
        proxy.routes = {}
        with pytest.raises(Unavailable, match=rf"by the proxy {proxy.url}, auth\.oidc\.proxy"):
            await source(proxy=proxy.url).probe()
        # What is on this machine is reached without the proxy.
        asked = len(proxy.requests)
        with pytest.raises(Unavailable):
            await source(issuer="http://127.0.0.1:1/realm", proxy=proxy.url).probe()
        assert len(proxy.requests) == asked
    with pytest.raises(Unavailable, match=r"set auth\.oidc\.proxy"):
        await source(issuer="https://login.invalid/realm").probe()
