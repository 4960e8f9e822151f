"""`GET /storage` shows the folders of the caller alone."""

from __future__ import annotations

from aitne.core.models.user import Role
from tests.support.stage import Stage


async def test_over_http_everybody_sees_their_own(stage: Stage) -> None:
    ada = await stage.add_user("ada", project="vision")
    boss = await stage.add_user("root", Role.ADMIN)
    async with stage.client(await stage.token(ada)) as client:
        answer = await client.get("/api/v1/storage")
        foreign = await client.get("/api/v1/storage?project=secret")
        odd = await client.get("/api/v1/storage?project=../x")
    assert answer.status_code == 200, answer.text
    assert answer.json()["areas"][0]["area"]["name"] == "home"
    assert set(answer.json()) == {"account", "areas", "problems", "as_of"}
    assert (foreign.status_code, odd.status_code) == (404, 422)
    async with stage.client(await stage.token(boss)) as client:
        assert (await client.get("/api/v1/storage")).status_code == 200
    async with stage.client() as client:
        assert (await client.get("/api/v1/storage")).status_code == 401
