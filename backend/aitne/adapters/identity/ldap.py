"""Authentication by an LDAP directory (RFC 4511), with the package bonsai, which uses OpenLDAP's
library.

The user's password is verified by binding as the user's entry. The entry is found by a search with
a service account, or from a pattern for its name. User input is escaped before it goes into a
filter or a distinguished name.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import bonsai
from bonsai.utils import escape_attribute_value, escape_filter_exp
from typing_extensions import override

from aitne.core.errors import SetupError, Unavailable
from aitne.core.ports.identity_source import FormSource, Identity, require_group, role_by_groups
from aitne.core.settings import Settings
from aitne.core.users.auth_settings import LdapSettings
from aitne.local_system.password_from_file import read_password

_GROUPS_OF_ENTRY = "memberOf"
_PLAIN = re.compile(r"[!-~]{1,200}")
"""Accepted user names. Directories ignore spaces and invisible characters (RFC 4518), with which
one name would have many spellings.
"""
_AT_ONCE = 4
_TWO = 2
"""Maximum number of search results that are requested: two show that the search is ambiguous."""


class LdapIdentity(FormSource):
    """Identity source that checks passwords by an LDAP bind, on a new connection for each login,
    because a bind applies to a whole connection.
    """

    name = "ldap"

    def __init__(self, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._settings: LdapSettings = settings.auth.ldap
        self._service_password = _read_bind_password(self._settings)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @override
    async def authenticate(
        self, username: str, password: str, stored: str | None
    ) -> Identity | None:
        # With an empty password a bind is unauthenticated and always succeeds (RFC 4513, 5.1.2).
        if not _PLAIN.fullmatch(username) or not password or "\0" in password:
            return None
        async with self._slots:
            return await asyncio.to_thread(self._authenticate, username, password)

    async def probe(self) -> None:
        """Connect to the directory as the account with which users are searched. Raises
        ``Unavailable`` if the directory does not answer or refuses the login.
        """
        await asyncio.to_thread(self._probe)

    def _probe(self) -> None:
        try:
            with self._connect(self._settings.bind_dn, self._service_password):
                return
        except bonsai.LDAPError as error:
            raise self._make_no_answer_error(error) from error

    def _authenticate(self, username: str, password: str) -> Identity | None:
        """Verify the password and return the user's identity, or None if the login fails. Blocks:
        the library's asynchronous mode is not used because it does not close connections that fail.
        """
        entry = None
        if self._settings.user_dn is None:
            entry = self._search_user(username)
            if entry is None:
                return None
        dn = str(entry.dn) if entry is not None else self._make_user_dn(username)
        try:
            with self._connect(dn, password) as connection:
                if entry is None:
                    entry = self._read_entry(connection, dn)
                groups = self._read_groups(connection, dn, username, entry)
        except bonsai.AuthenticationError:
            return None
        except bonsai.LDAPError as error:
            raise self._make_no_answer_error(error) from error
        name = _first_value(entry, self._settings.name_attribute) or username
        require_group(name, groups, self._settings.allowed_groups)
        return Identity(
            name=name,
            display_name=_first_value(entry, self._settings.display_name_attribute),
            mail=_first_value(entry, self._settings.mail_attribute),
            role=role_by_groups(groups, self._settings.admin_groups),
        )

    def _connect(self, dn: str | None, password: str | None) -> Any:
        settings = self._settings
        assert settings.url is not None  # noqa: S101 - the settings require it for a source in use
        client = bonsai.LDAPClient(
            settings.url, tls=settings.start_tls and settings.url[:6] == "ldap:/"
        )
        client.set_cert_policy("demand")
        if settings.ca_file is not None:
            client.set_ca_cert(str(settings.ca_file))
        # Referrals would send the password to other servers.
        client.set_server_chase_referrals(False)
        if dn is not None:
            client.set_credentials("SIMPLE", user=dn, password=password or "")
        return client.connect(timeout=settings.timeout_s)

    def _search_user(self, username: str) -> Any:
        settings = self._settings
        search = settings.search_filter.replace("{user}", escape_filter_exp(username))
        try:
            with self._connect(settings.bind_dn, self._service_password) as service:
                entries = service.search(
                    settings.search_base,
                    bonsai.LDAPSearchScope.SUBTREE,
                    search,
                    self._list_attributes(),
                    timeout=settings.timeout_s,
                    sizelimit=_TWO,
                )
        except bonsai.SizeLimitError:
            return None
        except bonsai.LDAPError as error:
            raise self._make_no_answer_error(error) from error
        # A name that matches two users is ambiguous.
        return entries[0] if len(entries) == 1 else None

    def _read_entry(self, connection: Any, dn: str) -> Any:
        entries = connection.search(
            dn,
            bonsai.LDAPSearchScope.BASE,
            "(objectClass=*)",
            self._list_attributes(),
            timeout=self._settings.timeout_s,
        )
        return entries[0] if entries else {}

    def _read_groups(
        self, connection: Any, dn: str, username: str, entry: Mapping[str, Any]
    ) -> frozenset[str]:
        settings = self._settings
        if not settings.allowed_groups and not settings.admin_groups:
            return frozenset()
        if settings.group_base is None:
            names = (_parse_group_name(value) for value in _list_values(entry, _GROUPS_OF_ENTRY))
            return frozenset(filter(None, names))
        name = _first_value(entry, settings.name_attribute) or username
        search = settings.group_filter.replace("{dn}", escape_filter_exp(dn)).replace(
            "{user}", escape_filter_exp(name)
        )
        if settings.bind_dn is None:
            groups = self._search_groups(connection, search)
        else:
            with self._connect(settings.bind_dn, self._service_password) as service:
                groups = self._search_groups(service, search)
        return frozenset(
            value for group in groups for value in _list_values(group, settings.group_attribute)
        )

    def _search_groups(self, connection: Any, search: str) -> Sequence[Mapping[str, Any]]:
        settings = self._settings
        groups: Sequence[Mapping[str, Any]] = connection.search(
            settings.group_base,
            bonsai.LDAPSearchScope.SUBTREE,
            search,
            [settings.group_attribute],
            timeout=settings.timeout_s,
        )
        return groups

    def _make_user_dn(self, username: str) -> str:
        assert self._settings.user_dn is not None  # noqa: S101 - the caller has checked it
        return self._settings.user_dn.replace("{user}", escape_attribute_value(username))

    def _list_attributes(self) -> list[str]:
        settings = self._settings
        return [
            settings.name_attribute,
            settings.display_name_attribute,
            settings.mail_attribute,
            _GROUPS_OF_ENTRY,
        ]

    def _make_no_answer_error(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"The directory {self._settings.url} cannot be queried: {error}. Its users cannot log "
            "in; a one-time link of `aitne open --print` works without it."
        )


def _read_bind_password(settings: LdapSettings) -> str | None:
    if settings.bind_password_file is None:
        return None
    try:
        return read_password(settings.bind_password_file)
    except OSError as error:
        raise SetupError(
            f"The directory's bind_password_file {settings.bind_password_file} cannot be read: "
            f"{error.strerror}."
        ) from error


def _list_values(entry: Mapping[str, Any], attribute: str) -> list[str]:
    return [str(value) for value in entry.get(attribute, ())]


def _first_value(entry: Mapping[str, Any], attribute: str) -> str | None:
    return next(iter(_list_values(entry, attribute)), None)


def _parse_group_name(dn: str) -> str | None:
    """Return the value of the first component of a group's distinguished name: ``vision`` for
    ``cn=vision,ou=groups,dc=example,dc=org``; None if it has none.
    """
    try:
        ((_, name), *_), *_ = bonsai.LDAPDN(dn).rdns
    except (bonsai.InvalidDN, ValueError):
        return None
    return str(name)
