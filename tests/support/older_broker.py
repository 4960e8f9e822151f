"""A broker process of the previous release, as its wire was recorded:
``python -m tests.support.older_broker SOCKET``. It refuses what that release would refuse or ignore.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema

RECORDING = Path(__file__).parents[1] / "assets" / "broker" / "protocol-1.json"


def recording() -> dict[str, Any]:
    """Return the recording of protocol 1.

    It has the schemas of release 0.1.0, closed where it ignored unknown fields, and a conversation
    with its broker.
    """
    read: dict[str, Any] = json.loads(RECORDING.read_text())
    return read


def _answers(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer for each verb; other verbs have none."""
    return {
        line["sent"]["verb"]: line["answered"]["ok"]
        for line in reversed(recorded["transcript"][1:])
    }


def _refusal(number: int | None, message: str) -> dict[str, Any]:
    return {
        "id": number,
        "error": {"code": "invalid_input", "message": message, "problems": []},
    }


async def serve(path: str) -> None:
    """Answer each verb as it was recorded, until the process is ended."""
    recorded = recording()
    answers = _answers(recorded)

    def answer(line: dict[str, Any]) -> dict[str, Any]:
        verb = recorded["verbs"].get(line["verb"])
        if verb is None:
            return _refusal(line["id"], "verb: the broker knows no such verb")
        try:
            jsonschema.validate(line["args"], verb["args"])
        except jsonschema.ValidationError as error:
            return _refusal(line["id"], f"{error.json_path}: {error.message[:200]}")
        return {"id": line["id"], "ok": answers.get(line["verb"], {})}

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        welcome = recorded["transcript"][0]["answered"]
        try:
            jsonschema.validate(json.loads(await reader.readline()), recorded["hello"])
        except jsonschema.ValidationError:
            welcome = _refusal(None, "The first line must be a greeting of this protocol.")
        writer.write(json.dumps(welcome).encode() + b"\n")
        if "error" not in welcome:
            while line := await reader.readline():
                writer.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(connected, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
