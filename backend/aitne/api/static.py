"""The portal's files. What is no file and no API path is a page of the portal itself."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse

from aitne.api.middleware import PORTAL_CSP
from aitne.api.problems import CATCH_ALL

NOT_BUILT = (
    "Aitne's API is running, but the portal was not built. In a checkout run `make up`, which "
    "builds it; the API itself is described at /api/v1/openapi.json.\n"
)
_RESERVED = ("api/", "agent/", "internal/")


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
    async def portal(path: str) -> Response:
        if path.startswith(_RESERVED) or path in {"api", "agent", "internal"}:
            raise HTTPException(404)
        if root is None:
            return PlainTextResponse(NOT_BUILT, 503)
        file = known.get(path)
        if file is None and path.startswith("assets/"):
            raise HTTPException(404)
        # A name from the list of files, never a path that a client put together.
        hashed = file is not None and path.startswith("assets/")
        return FileResponse(
            file or root / "index.html",
            headers={
                "Cache-Control": "public, max-age=31536000, immutable" if hashed else "no-cache",
                "Content-Security-Policy": PORTAL_CSP,
            },
        )

    return router


def _scan(root: Path) -> dict[str, Path]:
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
