"""Record what slurmrestd answers, for tests/assets/slurm/<release>/rest.

    python scripts/record_slurmrestd.py --url http://127.0.0.1:6820 --key jwt.key --user alice --account ml

It asks each version of the interface that is served and known, and submits small jobs as ``--user``. What
belongs to the machine (hosts, addresses, the client) is left out, and most fields of most records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "backend"))

from aitne.adapters.schedulers._slurm.rest import api_versions, rest_records, version_conversion
from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.token_mint import TokenMint, sign_token

ASSETS = Path(__file__).resolve().parent.parent / "tests" / "assets" / "slurm"
UUID = "00000000-0000-4000-8000-00000000000{}"
KEPT = frozenset(
    {*rest_records._RAW, "array_task_string", "array_max_tasks", "job_resources", "shared"}
)
UNKNOWN_ID = 67_108_863


class Recorder:
    """Asks one version as one user, and writes down what comes."""

    def __init__(self, url: str, key: bytes, user: str, account: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=60)
        self._key = key
        self._user = user
        self._account = account
        self._folder = ASSETS
        self._version = 0

    def headers(self, token: str | None = None) -> dict[str, str]:
        """Return the headers that authenticate the user.

        Args:
            token: a token to send instead of a valid one.
        """
        token = token or TokenMint(self._key).token(self._user)
        return {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": token}

    async def release(self) -> tuple[int, ...]:
        """Record the OpenAPI paths of the release; return the API versions that it serves."""
        answer = await self._http.get("/openapi/v3", headers=self.headers())
        document = answer.json()
        offered = api_versions.parse_served_versions(document)
        ping = await self._send_request("GET", f"/slurm/v0.0.{offered[-1]}/ping", self.headers())
        meta = ping.json()["meta"]
        number = (meta.get("slurm") or meta["Slurm"])["release"]
        self._folder = ASSETS / ".".join(number.split(".")[:2]) / "rest"
        self._folder.mkdir(parents=True, exist_ok=True)
        paths = {path: {} for path in document["paths"] if path.startswith(("/slurm/", "/openapi"))}
        self._write_answer("openapi", 200, {"openapi": document.get("openapi"), "paths": paths})
        return offered

    async def version(self, number: int) -> None:
        """Record the answers of one API version."""
        self._version = number
        prefix = f"/slurm/v0.0.{number}"
        await self._record_answer("licenses", "GET", f"{prefix}/licenses")
        old = sign_token(self._key, self._user, int(time.time()) - 7_200, int(time.time()) - 3_600)
        await self._record_answer(
            "licenses-refused", "GET", f"{prefix}/licenses", self.headers(old)
        )
        body = self._make_submit_body("true", 1)
        await self._record_answer(
            "submit-refused", "POST", f"{prefix}/job/submit", self.headers(old), body
        )
        for name, options in {
            "partition": ["--partition=nowhere"],
            "account": ["--account=nobody"],
            "qos": ["--qos=nothing"],
            "constraint": ["--constraint=golden"],
            "nodes": ["--nodes=999"],
            "cpu": ["--cpus-per-task=999"],
            "gres": ["--gres=fpga:1"],
            "reservation": ["--reservation=never"],
            "array": ["--array=0-999999"],
            "dependency": [f"--dependency=afterok:{UNKNOWN_ID}", "--kill-on-invalid-dep=yes"],
        }.items():
            body = self._make_submit_body("true", 1, *options)
            await self._record_answer(f"submit-{name}", "POST", f"{prefix}/job/submit", body=body)
        long = await self._submit_job("submit", "sleep 60", 2, "--nodes=2", "--gres=gpu:1")
        array = await self._submit_job(None, "sleep 60", 3, "--array=1-6%2")
        failed = await self._submit_job(None, "exit 7", 4)
        killed = await self._submit_job(None, "kill -SEGV $$", 5)
        waiting = await self._submit_job(
            None, "true", 6, f"--dependency=afterok:{long}", "--kill-on-invalid-dep=yes"
        )
        await self._wait_for_job(failed, lambda job: job["job_state"] == ["FAILED"])
        await self._wait_for_job(killed, lambda job: job["job_state"] == ["FAILED"])
        await self._wait_for_job(long, lambda job: "RUNNING" in job["job_state"])
        await self._wait_for_job(array, lambda job: "RUNNING" in job["job_state"])
        await self._record_answer("job-complete", "GET", f"{prefix}/job/{long}", whole=True)
        for name, job in {
            "running": long, "array": array, "failed": failed, "killed": killed, "waiting": waiting,
        }.items():  # fmt: skip
            await self._record_answer(f"job-{name}", "GET", f"{prefix}/job/{job}")
        await self._record_answer("job-unknown", "GET", f"{prefix}/job/{UNKNOWN_ID - 1}")
        await self._record_answer(
            "jobs", "GET", f"{prefix}/jobs/" if number >= 40 else f"{prefix}/jobs"
        )
        await self._record_answer(
            "jobs-unchanged", "GET", f"{prefix}/jobs/?update_time={int(time.time()) + 5}"
        )
        await self._record_answer("diag", "GET", f"{prefix}/diag")
        await self._record_answer("cancel", "DELETE", f"{prefix}/job/{array}")
        await self._record_answer("cancel-ended", "DELETE", f"{prefix}/job/{failed}")
        await self._record_answer("cancel-unknown", "DELETE", f"{prefix}/job/{UNKNOWN_ID - 1}")
        await self._send_request("DELETE", f"{prefix}/job/{long}", self.headers())
        await self._wait_for_job(long, lambda job: job["job_state"] == ["CANCELLED"])
        await self._record_answer("job-cancelled", "GET", f"{prefix}/job/{long}")

    def _make_submit_body(self, command: str, index: int, *options: str) -> dict[str, Any]:
        uuid = UUID.format(index)
        common = [
            f"--job-name=aitne-{uuid}-1", f"--comment=aitne:{uuid}:1", "--chdir=/tmp",
            "--output=/dev/null", f"--account={self._account}", "--nodes=1", "--ntasks-per-node=1",
            "--cpus-per-task=1", "--mem=64M", "--time=10", "--requeue",
        ]  # fmt: skip
        job = make_submission([*common, *options], {"PATH": "/usr/bin:/bin"})
        if job is None:
            raise SystemExit(f"{options} cannot be said in JSON")
        script = f"#!/bin/bash\n{command}\n"
        return {
            "script": script,
            "job": version_conversion.downgrade_submission(job, self._version),
        }

    async def _submit_job(self, name: str | None, command: str, index: int, *options: str) -> int:
        path = f"/slurm/v0.0.{self._version}/job/submit"
        answer = await self._send_request(
            "POST", path, self.headers(), self._make_submit_body(command, index, *options)
        )
        if answer.status_code != 200:
            raise SystemExit(answer.text)
        if name is not None:
            self._write_answer(
                name, answer.status_code, _remove_unneeded_fields(answer.json(), whole=False)
            )
        return int(answer.json()["job_id"])

    async def _wait_for_job(self, job: int, ok: Callable[[Mapping[str, Any]], bool]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = await self._send_request(
                "GET", f"/slurm/v0.0.{self._version}/job/{job}", self.headers()
            )
            if any(
                ok(version_conversion.upgrade_record(one, self._version))
                for one in answer.json()["jobs"]
            ):
                return
            await asyncio.sleep(0.2)
        raise SystemExit(f"job {job} did not get there")

    async def _send_request(
        self, method: str, path: str, headers: dict[str, str], body: object = None
    ) -> httpx.Response:
        return await self._http.request(method, path, headers=headers, json=body)

    async def _record_answer(
        self,
        name: str,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        body: object = None,
        *,
        whole: bool = False,
    ) -> None:
        answer = await self._send_request(method, path, headers or self.headers(), body)
        said = answer.json() if answer.content else None
        self._write_answer(name, answer.status_code, _remove_unneeded_fields(said, whole=whole))

    def _write_answer(self, name: str, status: int, body: object) -> None:
        folder = self._folder / f"v0.0.{self._version}" if self._version else self._folder
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"status": status, "body": body}, indent=1, sort_keys=True)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _remove_unneeded_fields(value: Any, *, whole: bool) -> Any:
    """Remove the fields that describe the machine and those that the parsers do not read."""
    if not isinstance(value, dict):
        return value
    value = {key: part for key, part in value.items() if key not in ("meta", "bf_exit")}
    if "statistics" in value:
        kept = ("jobs_pending", "jobs_running", "jobs_submitted")
        value["statistics"] = {key: value["statistics"][key] for key in kept}
    if "jobs" in value:
        value["jobs"] = [
            {key: _anonymize_field(key, part) for key, part in job.items() if whole or key in KEPT}
            for job in value["jobs"]
        ]
    return value


def _anonymize_field(key: str, value: Any) -> Any:
    if key == "allocating_node":
        return "n1"
    return re.sub(r"/tmp/[^ ]*", "/tmp", value) if isinstance(value, str) else value


async def record_all_versions(given: argparse.Namespace) -> None:
    """Record the answers of all API versions that are served and known."""
    recorder = Recorder(given.url, given.key.read_bytes(), given.user, given.account)
    known = {api.number for api in api_versions.KNOWN}
    for number in await recorder.release():
        if number in known:
            print(f"v0.0.{number}", file=sys.stderr)
            await recorder.version(number)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", required=True, type=Path)
    parser.add_argument("--user", required=True)
    parser.add_argument("--account", required=True)
    asyncio.run(record_all_versions(parser.parse_args()))
