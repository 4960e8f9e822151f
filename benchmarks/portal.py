"""Waiting times in the portal, in a real Chromium: first load, later pages, a table of 10,000 jobs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from tests.support.ports import reserve_ports

from aitne.core.settings import Settings
from aitne.supervisor.nodejs_lookup import find_nodejs
from aitne.supervisor.secret_files import ensure_secrets
from benchmarks import jobs_table
from benchmarks.figures import Figure, Row
from benchmarks.processes import BenchmarkError, answers, eventually, running
from benchmarks.stats import median, quantile_estimate

NAME = "portal"
MOST_KB = 300.0
FRAME_MS = 1000 / 60
_SCRIPT = Path(__file__).with_suffix(".mjs")
_METRICS = (
    ("fcp", "first contentful paint", "ms", 1_800.0),
    ("lcp", "largest contentful paint", "ms", 2_500.0),
    ("interactive", "time to interactive", "ms", 3_800.0),
    ("blocked", "blocked by long tasks", "ms", 200.0),
    ("shift", "cumulative layout shift", "", 0.1),
    ("bytes", "scripts and styles, compressed", "kB", MOST_KB),
)
"""The targets of times and shift are those that Lighthouse calls good."""


def measure(*, quick: bool) -> Figure:
    """Measure an API that serves the built portal and has 10,000 jobs."""
    chromium = os.environ.get("AITNE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        raise BenchmarkError("there is no chromium: apt-get install chromium")
    with TemporaryDirectory(prefix="aitne-bench-") as folder:
        settings = Settings(data_dir=Path(folder), port=reserve_ports(2))
        ensure_secrets(settings.secrets_dir)
        tokens = asyncio.run(jobs_table.fill(settings))
        env = {"AITNE_DATA_DIR": folder, "AITNE_PORT": str(settings.port)}
        with running([sys.executable, "-m", "aitne.api"], Path(folder, "api.log"), env):
            eventually("the API's start", lambda: answers(settings.port))
            url = f"http://127.0.0.1:{settings.port}"
            found = _browse(url, tokens[jobs_table.ADMIN], chromium, quick=quick)
    return Figure(NAME, "The portal in Chromium", list(_rows(found)), _notes())


def _browse(url: str, token: str, chromium: str, *, quick: bool) -> Mapping[str, Any]:
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/api/v1/auth/login-links", headers=headers, trust_env=False)
    if not answer.is_success:
        raise BenchmarkError(f"no login link: {answer.text}")
    rounds = ("3", "2") if quick else ("15", "8")
    done = subprocess.run(
        [str(find_nodejs().program), str(_SCRIPT), url, answer.json()["url"], *rounds],
        env={**os.environ, "AITNE_CHROMIUM": chromium},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkError(done.stderr[-2_000:])
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def _rows(found: Mapping[str, Any]) -> list[Row]:
    rows = [
        Row(f"first load, {title}", unit, median([each[key] for each in found["loads"]]), target)
        for key, title, unit, target in _METRICS
    ]
    frames = found["frames"]
    return [
        *rows,
        Row("a later page, median", "ms", median(found["switches"]), 100.0),
        Row("a later page, 95 of 100", "ms", quantile_estimate(found["switches"], 0.95)),
        Row("a frame while 10,000 jobs scroll, median", "ms", median(frames), 2 * FRAME_MS),
        Row(
            "a frame while 10,000 jobs scroll, 95 of 100",
            "ms",
            quantile_estimate(frames, 0.95),
            50.0,
        ),
    ]


def _notes() -> list[str]:
    return [
        "Chromium without a GPU on the machine that serves it too, a new context for each load: nothing is cached, "
        "and there is no network in between, so the bytes are what a slow line has to carry.",
        "Scripts and styles are those that were asked for until the front page's templates stood; what a page may need "
        "next is fetched after that.",
        "Time to interactive is when the front page's templates stand and half a second passed without a long task.",
        "A later page is from the press on a link of the navigation to the other page's heading on the screen.",
    ]
