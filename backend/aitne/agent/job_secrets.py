"""Secrets of the owner that the job uses. They are fetched at the start and kept in memory only."""

from __future__ import annotations

import json
import time

from aitne.agent import http_client
from aitne.agent.spec import Spec

_PATIENCE_S = 300.0
_ANSWER_S = 30.0
_PAUSE_S = 2.0


class SecretsUnavailable(Exception):
    """Error: the platform did not provide the secrets that the job uses; the message states the
    reason."""


def load_secrets(spec: Spec) -> None:
    """Fetch the secrets that the job uses and add them to the environment of its programs.

    Raises:
        SecretsUnavailable: the platform refuses, or does not answer for some minutes.
    """
    url = f"{spec.platform_url}/agent/v1/jobs/{spec.job_id}/secrets"
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            status, body = http_client.request("GET", url, token=spec.token, timeout_s=_ANSWER_S)
            if status == 200:
                env = json.loads(body)["env"]
                spec.env.update({str(name): str(value) for name, value in env.items()})
                return
            reason = f"the platform answers {status}"
            if 400 <= status < 500 and status != 429:
                raise SecretsUnavailable(parse_error_detail(body) or reason)
        except (OSError, http_client.InvalidResponseError, ValueError, KeyError) as error:
            reason = f"the platform cannot be reached: {error}"
        if time.monotonic() > give_up:
            raise SecretsUnavailable(f"{reason}, for {_PATIENCE_S:.0f} s")
        time.sleep(_PAUSE_S)


def parse_error_detail(body: bytes) -> str | None:
    """Return the reason that an error response of the platform states; None if it states none."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return None
