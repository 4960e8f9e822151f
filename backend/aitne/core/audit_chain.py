"""Hash chain of the audit log, computed over exported entries, so that any reader of an export can
check it.

An entry's hash is SHA-256 over its canonical JSON (sorted keys, no spaces, ASCII) without the hash
itself; each entry contains the hash of the previous entry. A changed, removed or inserted entry
therefore breaks the chain at that place, unless all later hashes are recomputed. To detect that as
well, store the last hash elsewhere from time to time, or keep exports.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FIRST = "0" * 64
"""Value of the first entry in place of the hash of a previous entry."""


def compute_entry_hash(entry: Mapping[str, Any]) -> str:
    """Return the hash that an entry must have, ignoring its own ``hash`` field."""
    content = {name: value for name, value in entry.items() if name != "hash"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """First entry that breaks the chain, and a description of the problem."""

    entry: int
    """Number of the entry; the line number if an exported line contains no entry."""
    problem: str


@dataclass(slots=True)
class AuditChain:
    """State of checking entries from old to new, up to the first entry that breaks the chain."""

    entries: int = 0
    """Number of entries that were checked and found valid."""
    first: int | None = None
    """Number of the first checked entry; None: no entry yet."""
    last: int | None = None
    """Number of the last valid entry; None: no entry yet."""
    last_hash: str | None = None
    """Hash of the last valid entry; None: no entry yet."""
    gaps: int = 0
    """Number of places where entries are missing, as in an export with a filter."""
    broken: ChainBreak | None = None
    """First entry that breaks the chain; None: no such entry."""

    @property
    def is_intact(self) -> bool:
        """Return whether the chain is unbroken, without gaps, and starts at the first entry."""
        return self.broken is None and not self.gaps and self.first in (None, 1)

    def check_entries(
        self, entries: Iterable[Mapping[str, Any]], *, filtered: bool = False
    ) -> bool:
        """Check further entries, oldest first, and return False if one breaks the chain.

        ``filtered`` states that entries may be missing, as in a filtered export; each gap is
        counted in ``gaps``.
        """
        return all(self._check_entry(entry, filtered) for entry in entries)

    def _check_entry(self, entry: Mapping[str, Any], filtered: bool) -> bool:
        number = entry.get("id")
        if not isinstance(number, int) or isinstance(number, bool):
            return self._record_break(self.entries + 1, "The entry has no number.")
        if entry.get("hash") != compute_entry_hash(entry):
            return self._record_break(
                number, "The entry was changed: its hash does not match its content."
            )
        expected = 1 if self.last is None else self.last + 1
        if number < expected:
            return self._record_break(number, "The entry is duplicated or out of order.")
        if number > expected:
            if not filtered:
                return self._record_break(
                    number, f"Entries from {expected} on are missing before this one."
                )
            self.gaps += self.last is not None
        elif entry.get("previous") != (self.last_hash or FIRST):
            return self._record_break(number, "The entry does not follow the one before it.")
        self.first = number if self.first is None else self.first
        self.last, self.last_hash = number, str(entry["hash"])
        self.entries += 1
        return True

    def _record_break(self, number: int, problem: str) -> bool:
        self.broken = ChainBreak(number, problem)
        return False


def parse_entry(line: str) -> Mapping[str, Any]:
    """Return the entry in one line of a JSON lines export.

    Raises ``ValueError`` if the line contains no entry.
    """
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError("it is not a JSON object")
    return entry
