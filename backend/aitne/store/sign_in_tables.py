"""Tables of logins, tokens, second factors and lockouts."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from aitne.store.column_types import BigId, Prose, UserName, UtcDateTime
from aitne.store.tables import metadata

web_sessions = Table(
    "web_sessions",
    metadata,
    Column("token_hash", Text, primary_key=True),
    Column(
        "owner",
        UserName,
        ForeignKey("users.name", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    # The ID in lists; the sign-in token itself is not stored.
    Column("id", String(32), nullable=False, unique=True),
    Column("csrf", Text, nullable=False),
    Column("source", String(40), nullable=False),
    Column("device", Prose, nullable=False),
    Column("address", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False, index=True),
    # The user whom an administrator impersonates, and the end of the impersonation.
    Column("acting_as", UserName, ForeignKey("users.name", ondelete="CASCADE")),
    Column("acting_until", UtcDateTime),
    # The token whose login link created this sign-in, which ends with that token.
    Column("token_id", Text),
    # The last time after the login at which the user entered the password or a code.
    Column("authenticated_at", UtcDateTime),
    # The time at which it ends unless its user does something in the portal before.
    Column("idle_ends_at", UtcDateTime, index=True),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token_hash", Text, nullable=False, unique=True),
    Column(
        "owner",
        UserName,
        ForeignKey("users.name", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("name", Text, nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, index=True),
    Column("last_used_at", UtcDateTime),
    # The administrator who created it for its owner.
    Column("created_by", UserName),
)

secrets = Table(
    "secrets",
    metadata,
    Column("purpose", String(40), primary_key=True),
    Column("secret_hash", Text, primary_key=True),
    Column("owner", UserName, nullable=False, index=True),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("data", JSON, nullable=False),
)

# Logins of programs that no user has confirmed or refused yet.
device_logins = Table(
    "device_logins",
    metadata,
    # The hash of the code that the user enters.
    Column("code_hash", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("program", Prose, nullable=False),
    Column("address", Text),
    # The network whose open requests are limited; an IPv6 address counts with its /64.
    Column("network", String(64), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False, index=True),
    # The user who has seen the request, and since when.
    Column("seen_by", UserName),
    Column("seen_at", UtcDateTime),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("key", Text, nullable=False),
    Column("time", UtcDateTime, nullable=False),
    Index("ix_attempts_key", "key", "time"),
)

second_factors = Table(
    "second_factors",
    metadata,
    Column("owner", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    # One half of the secret; the other half is a key of the platform outside the database.
    Column("salt", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # Unset until a code has proved that the device has the secret.
    Column("confirmed_at", UtcDateTime),
    # Codes of this time step and earlier ones are no longer accepted.
    Column("last_step", BigInteger, nullable=False),
)

recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("owner", UserName, ForeignKey("users.name", ondelete="CASCADE"), primary_key=True),
    Column("code_hash", Text, primary_key=True),
)

lockouts = Table(
    "lockouts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("failures", Integer, nullable=False),
    Column("failed_at", UtcDateTime, nullable=False),
    Column("locked_until", UtcDateTime),
)
