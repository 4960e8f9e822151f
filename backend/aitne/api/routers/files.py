"""Routes of users' files, by area and path. An address that ends in a slash is the list of a
folder, any other one is the content of a file."""

from __future__ import annotations

from email.utils import format_datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.convertors import Convertor, register_url_convertor

from aitne.api.byte_ranges import RangeNotSatisfiable, parse_range
from aitne.api.dependencies import PlatformDep, Reader
from aitne.api.problems import problem_response
from aitne.api.routers import V1
from aitne.api.streaming import StreamedResponse, get_open_streams
from aitne.core.models.stored_file import FileList
from aitne.core.path_encoding import shown_name
from aitne.core.ports.account_files import MAX_PAGE

BYTES = "application/octet-stream"
_GUARDED = {
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Accept-Ranges": "bytes",
}
"""Headers of what a job wrote: whatever it is, no browser shows or runs it in the portal's
origin."""


class FilePathConvertor(Convertor[str]):
    """Convertor of paths with any character: that of Starlette stops at a newline."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the value unchanged."""
        return value

    def to_string(self, value: str) -> str:
        """Return the value unchanged."""
        return value


register_url_convertor("file_path", FilePathConvertor())
router = APIRouter(prefix=V1, tags=["files"])


async def raw_path(request: Request) -> bytes:
    """Return the path below the area as it was sent, percent-encoded: the decoded one loses bytes
    that are not UTF-8."""
    sent: bytes = request.scope["raw_path"].partition(b"?")[0]
    return sent.partition(b"/files/")[2].partition(b"/")[2]


Area = Annotated[str, Path(description="Area of the files: `jobs`.", examples=["jobs"])]
FilePath = Annotated[
    str,
    Path(
        description="Path in the area, percent-encoded. In the area `jobs`: the id of a job, one of "
        "its folders (`workdir`, `checkpoints`, `metrics`), and the path below that. With a final "
        "slash: a folder.",
        examples=["8f14e45f-ceea-467f-a83e-b2e6c6a8b8c0/workdir/out/model.pt"],
    ),
]
RawPath = Annotated[bytes, Depends(raw_path)]
Limit = Annotated[
    int, Query(ge=1, le=MAX_PAGE, description="Folders: the maximum number of entries of a page.")
]
Cursor = Annotated[
    str | None,
    Query(max_length=3_000, description="Folders: `next_cursor` of the previous page."),
]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The list of the folder, or the content of the file.",
        "model": FileList,
        "content": {BYTES: {}},
    },
    206: {"description": "The requested part of the file.", "content": {BYTES: {}}},
    416: {"description": "The file has no byte in the requested range."},
}


@router.get("/files/{area}/{path:file_path}", response_class=Response, responses=_RESPONSES)
async def get_file(
    area: Area,
    path: FilePath,
    sent: RawPath,
    request: Request,
    actor: Reader,
    platform: PlatformDep,
    limit: Limit = 500,
    cursor: Cursor = None,
) -> Response:
    """Return the content of a file or, for an address that ends in a slash, the list of a folder.

    Files are read under the Unix account of their owner. `Range` with one range, and `If-Range`
    with the entity tag, resume a download. The connection breaks if the file is changed meanwhile.
    """
    if not sent or sent.endswith(b"/"):
        listed = await platform.files.list_folder(
            actor, area, sent[:-1], after=cursor or "", limit=limit
        )
        return Response(listed.model_dump_json(), media_type="application/json")
    file = await platform.files.open(actor, area, sent)
    size, etag = file.facts.size_bytes or 0, f'"{file.facts.etag}"'
    headers = {
        **_GUARDED,
        "ETag": etag,
        "Content-Disposition": _make_content_disposition(file.name),
    }
    if file.facts.modified_at is not None:
        headers["Last-Modified"] = format_datetime(file.facts.modified_at, usegmt=True)
    asked = request.headers
    try:
        part = parse_range(asked.get("range"), asked.get("if-range"), etag=etag, size=size)
    except RangeNotSatisfiable:
        return problem_response(
            416,
            "range_not_satisfiable",
            f"The file has {size} bytes, and the requested range begins after them.",
            instance=request.url.path,
            headers={"Content-Range": f"bytes */{size}"},
        )
    start, end = part or (0, size)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    if request.method == "HEAD":
        headers["Content-Length"] = str(end - start)
        return Response(status_code=200 if part is None else 206, media_type=BYTES, headers=headers)
    return StreamedResponse(
        file.parts(start, end),
        get_open_streams(request.app),
        actor,
        media_type=BYTES,
        headers=headers,
        size=end - start,
        status=200 if part is None else 206,
    )


@router.head("/files/{area}/{path:file_path}", response_class=Response)
async def head_file(
    area: Area,
    path: FilePath,
    sent: RawPath,
    request: Request,
    actor: Reader,
    platform: PlatformDep,
) -> Response:
    """Return the headers of a file or folder, such as its size and entity tag, without content."""
    return await get_file(area, path, sent, request, actor, platform)


def _make_content_disposition(name: bytes) -> str:
    """Return the header with which a browser saves a file instead of showing it (RFC 6266)."""
    text = shown_name(name).replace("\ufffd", "_")
    plain = "".join(char if char.isascii() and char not in '"\\%' else "_" for char in text)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(text, safe='')}"
