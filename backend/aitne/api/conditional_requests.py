"""ETag and If-Match (RFC 9110, sections 8.8.3 and 13.1.1): an update applies to the version read.

    @router.patch("/things/{name}")
    async def update_thing(name: Name, body: ThingChanges, actor: Writer, platform: PlatformDep,
                           tags: TagsDep) -> Thing:
        return tags.of(await platform.things.update(actor, name, ..., check=tags.expect))

The store calls ``check`` with the current object, in the transaction that changes it: of two updates
of the same version, the second is rejected. A GET of one object answers ``tags.of(object)`` too.
Without If-Match an update is carried out, as scripts expect; the portal always sends it.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Response
from pydantic import BaseModel

from aitne.core.errors import ChangedMeanwhile

Model = TypeVar("Model", bound=BaseModel)
_TAG = re.compile(r'(?:W/)?"[^"]*"')

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1_000,
        description="The ETag of the version that you read. If the object has changed since, the "
        "request is rejected (412).",
        examples=['"5f2d1c0b9a8e7d6c"'],
    ),
]


def compute_etag(model: BaseModel) -> str:
    """Return a strong ETag of the model's JSON: equal contents have equal tags in every process."""
    text = model.model_dump_json(by_alias=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'


class RequestETags:
    """Compares the request's ``If-Match`` header with the ETag of the current object, and sets the
    ETag of the response."""

    def __init__(self, response: Response, if_match: str | None) -> None:
        self._response = response
        self._if_match = if_match

    def set_etag(self, model: Model) -> Model:
        """Set the ETag header of the response to the ETag of ``model``, and return ``model``."""
        self._response.headers["ETag"] = compute_etag(model)
        return model

    def check_if_match(self, current: BaseModel) -> None:
        """Check that the request's ``If-Match`` is absent, ``*``, or the ETag of ``current``.

        Raises:
            ChangedMeanwhile: the request names another ETag.
        """
        if self._if_match is None or self._if_match.strip() == "*":
            return
        if compute_etag(current) not in _TAG.findall(self._if_match):
            raise ChangedMeanwhile(
                "This was changed after you read it. Read it again, review the changes, and repeat "
                "your own."
            )


async def get_request_etags(response: Response, if_match: IfMatch = None) -> RequestETags:
    """Return the ETag helper for this request and its response."""
    return RequestETags(response, if_match)


TagsDep = Annotated[RequestETags, Depends(get_request_etags)]
