"""Logins at the Hub: cookies that no session's server is sent.

Runs inside JupyterHub, in the Hub's environment: standard library, JupyterHub and Tornado only.
"""

from __future__ import annotations

from typing import Any

from jupyterhub.handlers import base
from oauthenticator import oauth2


def confine_cookies(*, host_prefix: bool) -> None:
    """Set the cookies of the browser's session and of a login in progress for the Hub alone.

    By default they go to the servers of all users, and one of them holds the verifier of PKCE.

    Args:
        host_prefix: name them ``__Host-…``, which no page of another host can set.
    """
    if host_prefix:
        base.SESSION_COOKIE_NAME = f"__Host-{base.SESSION_COOKIE_NAME}"
        oauth2.STATE_COOKIE_NAME = f"__Host-{oauth2.STATE_COOKIE_NAME}"
    confined = {base.SESSION_COOKIE_NAME, oauth2.STATE_COOKIE_NAME}
    set_cookie, clear_cookie = base.BaseHandler._set_cookie, base.BaseHandler.clear_cookie

    def place(handler: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
        if name in confined:
            options.pop("domain", None)
            options["path"] = handler.hub.base_url
        return options

    def set_confined(
        self: Any, key: str, value: str, encrypted: bool = True, **options: Any
    ) -> None:
        set_cookie(self, key, value, encrypted, **place(self, key, options))

    def clear_confined(self: Any, cookie_name: str, **options: Any) -> None:
        clear_cookie(self, cookie_name, **place(self, cookie_name, options))

    base.BaseHandler._set_cookie = set_confined
    base.BaseHandler.clear_cookie = clear_confined
