"""Cache of nodes and partitions as JSON, serialized once for all clients and identified by an
ETag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from aitne.services.cluster.cluster import ClusterSnapshot, summarize_partitions

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class CachedPage:
    """Serialized API response with its ETag. Times at which nodes were last seen do not affect the
    ETag, because they change with every poll.
    """

    body: bytes
    etag: str

    def to_response(self, request: Request) -> Response:
        """Return the serialized JSON as a response, or 304 if the client's copy has the same ETag."""
        # A browser stores it and validates it on each request.
        headers = {"ETag": self.etag, "Cache-Control": "private, no-cache"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.body, media_type=JSON, headers=headers)


class ClusterPageCache:
    """Cache of the serialized API responses that list nodes and partitions. It contains only those
    for the latest snapshot of the cluster.
    """

    def __init__(self) -> None:
        self._look: ClusterSnapshot | None = None
        self._pages: dict[str, CachedPage] = {}

    def get_node_page(self, snapshot: ClusterSnapshot) -> CachedPage:
        """Return the serialized ``NodeList`` for a snapshot of the cluster."""
        return self._get_page("nodes", snapshot)

    def get_partition_page(self, snapshot: ClusterSnapshot) -> CachedPage:
        """Return the serialized ``PartitionList`` for a snapshot of the cluster."""
        return self._get_page("partitions", snapshot)

    def _get_page(self, kind: str, snapshot: ClusterSnapshot) -> CachedPage:
        if snapshot is not self._look:
            self._look, self._pages = snapshot, {}
        if kind not in self._pages:
            self._pages[kind] = (
                _render_nodes(snapshot) if kind == "nodes" else _render_partitions(snapshot)
            )
        return self._pages[kind]


def _render_nodes(snapshot: ClusterSnapshot) -> CachedPage:
    status = {"stale": snapshot.stale, "scheduler": snapshot.scheduler}
    news = [node.model_dump(mode="python", exclude={"seen_at"}) for node in snapshot.cluster.nodes]
    return _make_cached_page(
        {"items": snapshot.cluster.nodes, "as_of": snapshot.as_of, **status}, [news, status]
    )


def _render_partitions(snapshot: ClusterSnapshot) -> CachedPage:
    cluster = snapshot.cluster
    content = {
        "items": summarize_partitions(cluster),
        "qos": cluster.qos,
        "reservations": cluster.reservations,
        "stale": snapshot.stale,
    }
    return _make_cached_page({**content, "as_of": snapshot.as_of}, content)


def _make_cached_page(page: dict[str, Any], news: Any) -> CachedPage:
    digest = hashlib.sha256(to_json(news)).hexdigest()[:20]
    return CachedPage(to_json(page), f'"{digest}"')
