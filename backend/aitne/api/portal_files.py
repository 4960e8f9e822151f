"""Routes of the portal's files. A path that is neither a file nor part of the API gets the portal's
HTML page, which shows the right view itself."""

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

from aitne.api.edge_middleware import portal_csp
from aitne.api.problems import CATCH_ALL

NOT_BUILT = (
    "Aitne's API is running, but the portal was not built. In a checkout run `make up`, which "
    "builds it; the API itself is described at /api/v1/openapi.json.\n"
)
_NONCE = "NONCE-OF-THE-PAGE"
"""Placeholder in the built HTML page, replaced by a new nonce in each response."""
_RESERVED = ("api/", "agent/", "internal/")
_PACKED = frozenset({".js", ".css", ".svg"})
"""Suffixes of text files, which are sent compressed with gzip."""


def portal_dir() -> Path | None:
    """Return the folder of the built portal, in the source checkout or in the installed package;
    None if it was not built."""
    package = Path(str(files("aitne")))
    for place in (package.parents[1] / "frontend" / "dist", package / "_data" / "portal"):
        if (place / "index.html").is_file():
            return place
    return None


def portal_router(root: Path | None) -> APIRouter:
    """Return a router that serves the portal from ``root``. If ``root`` is None, it responds with a
    message on how to build the portal."""
    router = APIRouter(include_in_schema=False)
    files_by_path = {} if root is None else _list_files(root)

    @router.get(CATCH_ALL, name="portal")
    @router.head(CATCH_ALL, name="portal_head")
    async def portal(path: str, request: Request) -> Response:
        if path.startswith(_RESERVED) or path in {"api", "agent", "internal"}:
            raise HTTPException(404)
        if root is None:
            return PlainTextResponse(NOT_BUILT, 503)
        file = files_by_path.get(path)
        # After a new build in a checkout, a listed asset may no longer exist.
        if path.startswith("assets/") and (file is None or not file.is_file()):
            raise HTTPException(404)
        if file is None or path == "index.html":
            return _render_page(root)
        # The path is from the list of files, never composed by a client.
        if not path.startswith("assets/"):
            return FileResponse(file, headers={"Cache-Control": "no-cache"})
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        if file.suffix not in _PACKED:
            return FileResponse(file, headers=headers)
        headers["Vary"] = "Accept-Encoding"
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return FileResponse(file, headers=headers)
        headers["Content-Encoding"] = "gzip"
        body = await asyncio.to_thread(_compress_file, file)
        return Response(body, media_type=guess_type(file.name)[0], headers=headers)

    return router


@lru_cache(maxsize=512)
def _compress_file(file: Path) -> bytes:
    """Return a file's content compressed with gzip. The result is cached, because an asset never
    changes under its name."""
    return gzip.compress(file.read_bytes(), mtime=0)


def _render_page(root: Path) -> Response:
    """Return the portal's HTML page with a new nonce, and headers that prevent caching."""
    nonce = secrets.token_urlsafe(18)
    page = (root / "index.html").read_text().replace(_NONCE, nonce)
    return HTMLResponse(
        page,
        headers={"Cache-Control": "no-store", "Content-Security-Policy": portal_csp(nonce)},
    )


def _list_files(root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
