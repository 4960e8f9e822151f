"""The reference for a page of jobs: a FastAPI handler over the driver, without users, models or checks.

``python -m benchmarks.bare_page FILE`` reads ``{"port", "sqlite" | "postgres", "pages": {name:
[[sql, parameters], [sql, parameters]]}, "nodes": [sql, parameters]}``: the count and the page, and the
list of nodes, word for word as the platform asks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

Query = Callable[[str, list[Any]], Awaitable[list[dict[str, Any]]]]


@asynccontextmanager
async def sqlite(path: str) -> AsyncIterator[Query]:
    """Ask an SQLite file over aiosqlite."""
    import aiosqlite

    async with aiosqlite.connect(path, isolation_level=None) as connection:
        connection.row_factory = aiosqlite.Row

        async def query(sql: str, parameters: list[Any]) -> list[dict[str, Any]]:
            return [dict(row) for row in await connection.execute_fetchall(sql, parameters)]

        yield query


@asynccontextmanager
async def postgres(dsn: str) -> AsyncIterator[Query]:
    """Ask PostgreSQL over asyncpg."""
    import asyncpg

    connection = await asyncpg.connect(dsn, server_settings={"jit": "off"})

    async def query(sql: str, parameters: list[Any]) -> list[dict[str, Any]]:
        return [dict(row) for row in await connection.fetch(sql, *parameters)]

    try:
        yield query
    finally:
        await connection.close()


def create_app(config: dict[str, Any]) -> FastAPI:
    """Create an application with the handler and a health check."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        connect = sqlite(config["sqlite"]) if "sqlite" in config else postgres(config["postgres"])
        async with connect as app.state.query:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/healthz")
    async def healthz() -> bool:
        return True

    @app.get("/jobs")
    async def jobs(page: str) -> dict[str, Any]:
        (count, count_parameters), (rows, rows_parameters) = config["pages"][page]
        (total,) = (await app.state.query(count, count_parameters))[0].values()
        items = (await app.state.query(rows, rows_parameters))[:-1]
        for item in items:
            item["spec"], item["nodes"] = json.loads(item["spec"]), json.loads(item["nodes"])
        return {"items": items, "total": total}

    @app.get("/nodes")
    async def nodes() -> dict[str, Any]:
        items = await app.state.query(*config["nodes"])
        return {"items": [json.loads(item["data"]) for item in items]}

    return app


def main() -> None:
    """Serve with the options of the platform's own API."""
    config = json.loads(Path(sys.argv[1]).read_text())
    uvicorn.run(
        create_app(config),
        port=config["port"],
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
