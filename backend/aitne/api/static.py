"""The portal's files. What is no file and no API path is a page of the portal itself."""

from __future__ import annotations

import asyncio
import gzip
import secrets
from functools import lru_cache
from importlib.resources import files
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse

from aitne.api.middleware import portal_csp
from aitne.api.problems import CATCH_ALL

NOT_BUILT = (
    "Aitne's API is running, but the portal was not built. In a checkout run `make up`, which "
    "builds it; the API itself is described at /api/v1/openapi.json.\n"
)
_NONCE = "NONCE-OF-THE-PAGE"
"""Stands in the built page where the nonce of each answer goes."""
_RESERVED = ("api/", "agent/", "internal/")
_PACKED = frozenset({".js", ".css", ".svg"})
"""Text, which is a third of its size compressed."""


def portal_dir() -> Path | None:
    """Where the built portal lies: beside the sources in a checkout, in the package in a wheel."""
    package = Path(str(files("aitne")))
    for place in (package.parents[1] / "frontend" / "dist", package / "_data" / "portal"):
        if (place / "index.html").is_file():
            return place
    return None


def portal_router(root: Path | None) -> APIRouter:
    """The routes that serve ``root``; with None a sentence that says what to do."""
    router = APIRouter(include_in_schema=False)
    known = {} if root is None else _scan(root)

    @router.get(CATCH_ALL, name="portal")
    @router.head(CATCH_ALL, name="portal_head")
    async def portal(path: str, request: Request) -> Response:
        if path.startswith(_RESERVED) or path in {"api", "agent", "internal"}:
            raise HTTPException(404)
        if root is None:
            return PlainTextResponse(NOT_BUILT, 503)
        file = known.get(path)
        # Of a checkout that was built again since, a listed asset may be gone.
        if path.startswith("assets/") and (file is None or not file.is_file()):
            raise HTTPException(404)
        if file is None or path == "index.html":
            return _page(root)
        # A name from the list of files, never a path that a client put together.
        if not path.startswith("assets/"):
            return FileResponse(file, headers={"Cache-Control": "no-cache"})
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        if file.suffix not in _PACKED:
            return FileResponse(file, headers=headers)
        headers["Vary"] = "Accept-Encoding"
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return FileResponse(file, headers=headers)
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(_packed, file)
        return Response(body, media_type=guess_type(file.name)[0], headers=headers)

    return router


@lru_cache(maxsize=512)
def _packed(file: Path) -> bytes:
    """An asset never changes under its name, so that each is compressed once."""
    return gzip.compress(file.read_bytes(), mtime=0)


def _page(root: Path) -> Response:
    """The portal's page with a nonce of its own. It is not kept: the next answer has another one."""
    nonce = secrets.token_urlsafe(18)
    page = (root / "index.html").read_text().replace(_NONCE, nonce)
    return HTMLResponse(
        page,
        headers={"Cache-Control": "no-store", "Content-Security-Policy": portal_csp(nonce)},
    )


def _scan(root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
