"""Names of users: the rule of each identity source that makes them, and which names count as one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field, field_validator

from aitne.core.models.base import USER_NAME, Strict

MAX_REPORTED = 256
"""Maximum number of characters of a name that an identity source reports."""
_DOMAIN = r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$"
_USER_NAME = re.compile(USER_NAME)


class NameRule(Strict):
    """Mapping of the names of an identity source to names of accounts. Two identities never share an
    account: the one that logs in second is refused.
    """

    domains: list[Annotated[str, Field(max_length=253, pattern=_DOMAIN)]] = Field(
        default_factory=list,
        max_length=100,
        description="Domains that are removed from a name: with `example.org`, `ada@example.org` "
        "becomes `ada`. A name with another domain keeps it.",
    )
    pattern: str | None = Field(
        None,
        max_length=500,
        description="Regular expression that the whole name must match after that; a group in "
        "parentheses, if there is one, selects the part that is the account's name. Unset: every "
        "name.",
    )
    lower_case: bool = Field(
        False, description="Whether capital letters become small ones in the account's name."
    )

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"it is no regular expression: {error}") from error
        if groups > 1:
            raise ValueError(
                "it has more than one group; write (?:…) for those that select nothing"
            )
        return value

    def account_name(self, reported: str) -> str:
        """Return the account's name of an identity that the source reports as ``reported``.

        Raises ``ValueError`` with the reason if there is none.
        """
        if len(reported) > MAX_REPORTED:
            raise ValueError(f"it is longer than {MAX_REPORTED} characters")
        name = remove_domain(reported, self.domains)
        if self.pattern is not None:
            match = re.fullmatch(self.pattern, name)
            if match is None:
                raise ValueError("it does not match the pattern of this source")
            name = match[1] or "" if match.re.groups else name
        # Before it is lowered, which turns some other characters into ASCII letters.
        if _USER_NAME.fullmatch(name) is None:
            raise ValueError(
                "the name of an account consists of the letters A to Z and a to z, digits, _ . - and "
                "@, begins with a letter, a digit or _ and has at most 128 characters"
            )
        return name.lower() if self.lower_case else name


class NameRules(Strict):
    """Rules of the identity sources for the names of accounts. Sources that other distributions add
    have the rule of `password`.
    """

    password: NameRule = Field(
        NameRule(), description="Of the platform's own accounts: it applies to what is typed."
    )
    pam: NameRule = Field(
        NameRule(), description="Of accounts of this machine: it applies to what is typed."
    )
    ldap: NameRule = Field(
        NameRule(lower_case=True), description="Of the names that the directory returns."
    )
    oidc: NameRule = Field(
        NameRule(lower_case=True), description="Of the names that the provider returns."
    )

    def get_rule(self, source: str) -> NameRule:
        """Return the rule of the source with this name."""
        rule = getattr(self, source) if source in NameRules.model_fields else self.password
        assert isinstance(rule, NameRule)  # noqa: S101 - every field is one
        return rule

    @property
    def domains(self) -> frozenset[str]:
        """All domains that a rule removes."""
        rules = (self.get_rule(source) for source in NameRules.model_fields)
        return frozenset(domain for rule in rules for domain in rule.domains)


def remove_domain(name: str, domains: Iterable[str]) -> str:
    """Return the name without ``@`` and its domain if that is one of ``domains``; other names are
    returned unchanged.
    """
    local, at, domain = name.rpartition("@")
    known = {each.lower() for each in domains}
    return local if at and domain.isascii() and domain.lower() in known else name


def name_key(name: str) -> str:
    """Return a text that is equal for names which a person could take for one: those that differ
    only in capital letters or in their Unicode form.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded)


def identity_key(name: str) -> str:
    """Return the key of an identity for which its source has only a name. It is equal for names that
    differ only in the capital letters A to Z, which directories ignore; other characters are equal
    in some directories only.
    """
    return name.lower() if name.isascii() else name


def owner_of_account(account: str, accounts: Mapping[str, str]) -> str | None:
    """Return the user to whom ``accounts`` (the setting ``[accounts] map``) gives the Unix account;
    None if it gives that account to no user.
    """
    return next((user for user, name in accounts.items() if name == account), None)


def get_account_name(user: str, accounts: Mapping[str, str]) -> str:
    """Return the name of the user's Unix account: the one in ``accounts`` (the setting ``[accounts]
    map``), otherwise the user's own name.

    Raises ``ValueError`` if ``accounts`` gives the account of that name to another user.
    """
    if user in accounts:
        return accounts[user]
    owner = owner_of_account(user, accounts)
    if owner is not None:
        raise ValueError(f"accounts.map gives the Unix account {user} to the user {owner}")
    return user
