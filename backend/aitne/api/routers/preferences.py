"""Routes of the user's preferences in the portal: one document for each key, each with its own
schema."""

from __future__ import annotations

from fastapi import APIRouter

from aitne.api.conditional_requests import TagsDep
from aitne.api.dependencies import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.core.models.base import Strict
from aitne.core.models.preferences import MODELS

router = APIRouter(prefix=f"{V1}/me/preferences", tags=["preferences"])


def _add_routes(key: str, model: type[Strict]) -> None:
    """Add the routes that read and replace the preferences stored under ``key``. Each key has
    routes of its own, so that the OpenAPI document contains its schema."""
    words = key.replace("_", " ")

    async def read(actor: Reader, platform: PlatformDep, tags: TagsDep) -> Strict:
        return tags.set_etag(await platform.preferences.get(actor, key))

    async def write(body: Strict, actor: Writer, platform: PlatformDep, tags: TagsDep) -> Strict:
        return tags.set_etag(
            await platform.preferences.set_preference(actor, key, body, check=tags.check_if_match)
        )

    write.__annotations__["body"] = model
    for method, verb, handler, summary in (
        ("GET", "get", read, f"Return your preferences ({words}), or the defaults."),
        ("PUT", "put", write, f"Replace your preferences ({words})."),
    ):
        handler.__doc__ = summary
        router.add_api_route(
            f"/{key}",
            handler,
            methods=[method],
            response_model=model,
            name=f"{verb}_{key}_preferences",
        )


for _key, _model in MODELS.items():
    _add_routes(_key, _model)
