"""Tokens that authenticate one user for a minute."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.schedulers._slurm.token_mint import LIFETIME_S, TokenMint, sign_token
from aitne.core.errors import SetupError

KEY = bytes(range(32))


def claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_a_token_is_signed_with_the_key_and_nothing_else() -> None:
    token = sign_token(KEY, "alice", 100, 160)
    head, body, signature = token.split(".")
    expected = hmac.new(KEY, f"{head}.{body}".encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4)) == expected
    assert claims(token) == {"sun": "alice", "iat": 100, "exp": 160}
    assert "=" not in token


def test_a_token_is_used_for_half_of_its_life() -> None:
    now = 1_000.0
    mint = TokenMint(KEY, clock=lambda: now)
    first = mint.token("alice")
    assert claims(mint.token("bob"))["sun"] == "bob"
    now += LIFETIME_S / 2 - 1
    assert mint.token("alice") == first
    now += 2
    second = mint.token("alice")
    assert claims(second)["exp"] == now // 1 + LIFETIME_S
    now -= 3_600  # the clock is set back: the token would be one of the future
    assert claims(mint.token("alice"))["iat"] == now // 1


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jwt.key"
    path.write_bytes(KEY)
    path.chmod(0o644)
    with pytest.raises(SetupError, match=r"mode 0644.*chmod 0400"):
        TokenMint.from_file(path)
    path.chmod(0o640)
    TokenMint.from_file(path)
    path.write_bytes(b"short")
    with pytest.raises(SetupError, match="holds 5 bytes"):
        TokenMint.from_file(path)
    with pytest.raises(SetupError, match="No such file"):
        TokenMint.from_file(tmp_path / "missing")
