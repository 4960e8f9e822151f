"""The API does what its description says: requests made from the OpenAPI document, every check on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from aitne.supervisor.secret_files import ensure_secrets
from tests.support.api_server import Server

ROOT = Path(__file__).parents[3]
CONFIGURATION = ROOT / "tests" / "assets" / "schemathesis" / "schemathesis.toml"

UNHURRIED = {
    f"AITNE_RATES__{name}": "1000000"
    for name in ("CHANGES_PER_MINUTE", "CHANGES_BURST", "LOGINS_PER_MINUTE", "LOGINS_BURST")
}
"""So many requests that none is turned away for being one too many."""
SEED = ("--seed", "1") if os.environ.get("CI") else ()
"""CI judges a change by the same requests each time; other runs explore."""


OBJECTS = tuple(f"--include-tag={tag}" for tag in ("announcements", "secrets", "tokens"))
"""The operations of which sequences create, change, read and delete the same object."""
JOB_FILES = "/api/v1/(jobs|sessions|me/preferences)"
"""Paths of operations that take job files, which have two thirds of all boundaries."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("phases", "examples", "operations"),
    [
        pytest.param("stateful", 20, OBJECTS, id="objects"),
        pytest.param("stateful", 40, (), id="sequences", marks=pytest.mark.long),
        pytest.param("examples,fuzzing", 8, (), id="requests", marks=pytest.mark.long),
        pytest.param(
            "coverage",
            8,
            (f"--include-path-regex={JOB_FILES}",),
            id="boundaries_of_jobs",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "coverage",
            8,
            (f"--exclude-path-regex={JOB_FILES}",),
            id="boundaries",
            marks=pytest.mark.long,
        ),
    ],
)
def test_api_keeps_its_description(
    tmp_path: Path, phases: str, examples: int, operations: tuple[str, ...]
) -> None:
    server = Server(tmp_path, **UNHURRIED)
    server.prepare()
    ensure_secrets(tmp_path / "secrets")
    process = server.start()
    try:
        server.wait(process)
        description = tmp_path / "openapi.json"
        # Made at the first request, which on a busy machine takes longer than schemathesis waits.
        answer = httpx.get(f"{server.url}/api/v1/openapi.json", timeout=120)
        description.write_bytes(answer.raise_for_status().content)
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("schemathesis"), "--config-file", CONFIGURATION),
                *("run", description, "--url", server.url),
                *("--header", f"Authorization: Bearer {server.token}"),
                *("--phases", phases, "--max-examples", str(examples)),
                # A sequence with an invalid request ends early.
                *("--mode", "positive" if phases == "stateful" else "all"),
                *operations,
                *("--checks", "all", "--continue-on-failure", "--no-color"),
                # In two threads the generator failed once, inside Hypothesis; one takes as long.
                *("--workers", "1", "--request-timeout", "30"),
                *SEED,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=840,
        )
        still = httpx.get(f"{server.url}/api/v1/me", headers=server.headers()).status_code
    finally:
        process.kill()
        process.communicate()
    assert still == 200, "the requests went on without a login"
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
