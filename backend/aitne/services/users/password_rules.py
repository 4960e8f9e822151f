"""Rules for a new password of a platform account (OWASP ASVS 2.1.1, 2.1.7)."""

from __future__ import annotations

from aitne.core.errors import InvalidInput
from aitne.core.models.user import User

MIN_CHARACTERS = 12
_MIN_SCORE = 3
"""Minimum zxcvbn score, which stands for more than 10^8 guesses.

Common passwords, names, repeated characters and sequences have lower scores.
"""
_MAX_SCORED_CHARACTERS = 72


def check_new_password(password: str, user: User, field: str = "password") -> None:
    """Check that a new password is neither short nor easy to guess.

    Raises:
        InvalidInput: it is; the error names ``field`` and does not contain the password.
    """
    if len(password) < MIN_CHARACTERS:
        raise InvalidInput.field(
            field, f"is shorter than {MIN_CHARACTERS} characters", allowed="a short sentence"
        )
    # Only a new password needs its word lists.
    from zxcvbn import zxcvbn

    user_words = [
        user.name,
        *user.display_name.split(),
        user.name.replace("_", "").replace("-", ""),
    ]
    score = zxcvbn(password[:_MAX_SCORED_CHARACTERS], user_inputs=user_words)["score"]
    if score < _MIN_SCORE:
        raise InvalidInput.field(
            field,
            "is easy to guess: it is a common password, or the user's name, a repeat or a sequence",
            allowed="a short sentence",
        )
