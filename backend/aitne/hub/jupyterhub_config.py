"""Configuration of JupyterHub without pages of its own: the portal logs users in and names the
servers.

The hub runs in a separate virtual environment, in which the platform is not installed. Its
parameters are passed in ``AITNE_HUB_*`` variables, set by the supervisor, and in the files of the
secrets folder.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from logins import (  # type: ignore[import-not-found]
    END_LOGINS,
    EndLoginsHandler,
    PortalAuthenticator,
    bind_login,
    confine_cookies,
    install_session_logout,
)
from spawner import AdoptSpawner  # type: ignore[import-not-found]

os.umask(0o077)  # its database holds tokens of servers

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821 (traitlets gives it to this file)

sessions_url = os.environ["AITNE_HUB_SESSIONS_URL"]
user_domains = os.environ["AITNE_HUB_USER_DOMAINS"] == "1"
portal_url = os.environ["AITNE_HUB_PORTAL_URL"]
api_url = os.environ["AITNE_HUB_API_URL"]
data_dir = Path(os.environ["AITNE_HUB_DATA_DIR"])
secrets_dir = Path(os.environ["AITNE_HUB_SECRETS_DIR"])
login_s = int(os.environ["AITNE_HUB_LOGIN_S"])


HUB_LOGIN_S = 60
"""Seconds for which JupyterHub's own login cookie is valid."""


def read_secret(name: str) -> str:
    """Return the content of the file ``name`` in the secrets folder."""
    return (secrets_dir / name).read_text().strip()


def load_core_module(subject: str, name: str) -> ModuleType:
    """Load the module ``aitne.core.<subject>.<name>`` from its file; it must not import other
    modules of the platform.
    """
    path = Path(__file__).parents[1] / "core" / subject / f"{name}.py"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hub = c.JupyterHub
hub.bind_url = sessions_url
hub.public_url = sessions_url
hub.hub_bind_url = os.environ["AITNE_HUB_BIND_URL"]
hub.db_url = f"sqlite:///{data_dir / 'jupyterhub.sqlite'}"
hub.upgrade_db = True
hub.cookie_secret_file = str(secrets_dir / "hub_cookie_secret")
hub.template_paths = [os.environ["AITNE_HUB_TEMPLATES"]]
hub.log_level = "INFO"

# The proxy is a separate process, so that open kernels survive a restart of the Hub. It sends the
# Hub only what is the Hub's; for a path without a route it has a static page.
hub.hub_routespec = f"{urlsplit(sessions_url).hostname}/hub/" if user_domains else "/hub/"
hub.cleanup_servers = False
hub.cleanup_proxy = False
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = os.environ["AITNE_HUB_PROXY_API_URL"]
c.ConfigurableHTTPProxy.auth_token = read_secret("proxy_auth_token")
hub.trusted_downstream_ips = ["127.0.0.1", "::1"]

# A request to start a server is answered at once; only the platform limits their number.
tornado_settings: dict[str, Any] = {"slow_spawn_timeout": 0}
hub.tornado_settings = tornado_settings
hub.allow_named_servers = True
hub.named_server_limit_per_user = 0
hub.concurrent_spawn_limit = 0
hub.active_server_limit = 0

# A login at the Hub is short, because each session is opened with a valid login at the portal.
hub.cookie_max_age_days = HUB_LOGIN_S / 86_400
hub.oauth_token_expires_in = login_s
install_session_logout()
hub.extra_handlers = [(END_LOGINS, EndLoginsHandler)]
# The prefix keeps a user's pages from planting cookies on the Hub and on other users' hosts. It needs
# the path `/`, which servers on one host share: so it is for hosts of their own alone.
hub.cookie_host_prefix_enabled = user_domains
confine_cookies(host_prefix=user_domains)
if user_domains:
    hub.subdomain_host = sessions_url
    hub.subdomain_hook = load_core_module("sessions", "host_names").make_host_name
    # Over http, which browsers treat as secure on localhost, a server would not set it by itself.
    tornado_settings["cookie_options"] = {"secure": True}
hub.token_expires_in_max_seconds = login_s
hub.oauth_require_pkce = True
hub.default_url = portal_url

hub.authenticator_class = PortalAuthenticator
c.Authenticator.auto_login = True
c.Authenticator.allow_all = True  # the portal authorizes users
c.Authenticator.enable_auth_state = False
c.Authenticator.post_auth_hook = bind_login
oauth = c.GenericOAuthenticator
oauth.client_id = "jupyterhub"
oauth.client_secret = read_secret("oauth_client_secret")
oauth.oauth_callback_url = f"{sessions_url}/hub/oauth_callback"
oauth.authorize_url = f"{portal_url}/api/oauth/authorize"
oauth.token_url = f"{api_url}/api/oauth/token"
oauth.userdata_url = f"{api_url}/api/oauth/userinfo"
oauth.username_claim = "preferred_username"
oauth.enable_pkce = True
oauth.logout_redirect_url = portal_url

hub.services = [{"name": "platform", "api_token": read_secret("hub_api_token")}]
hub.load_roles = [
    {
        "name": "platform",
        "services": ["platform"],
        "scopes": ["admin:users", "servers", "read:servers", "read:hub", "proxy"],
    },
    # Users can access their servers, but only the platform starts and stops them.
    {
        "name": "user",
        "scopes": ["access:servers!user", "read:users!user", "users:activity!user"],
    },
]

# Not `internal_ssl`, with which the Hub would have to start the proxy and sign certificates itself.
authority = os.environ.get("AITNE_HUB_TLS_AUTHORITY")
if authority is not None:
    tornado_settings["internal_ssl_ca"] = authority
    tornado_settings["internal_ssl_cert"] = os.environ["AITNE_HUB_TLS_CERTIFICATE"]
    tornado_settings["internal_ssl_key"] = os.environ["AITNE_HUB_TLS_KEY"]

hub.spawner_class = AdoptSpawner
c.AdoptSpawner.tls = authority is not None
c.AdoptSpawner.platform_url = f"{api_url}/internal/hub/v1"
c.AdoptSpawner.platform_token = read_secret("hub_service_secret")
c.Spawner.apply_user_options = lambda spawner, options: None  # start() reads the job's id itself
c.Spawner.default_url = "/lab"
# Servers on other machines reach the Hub by its public proxy, so its own port stays on loopback.
c.Spawner.hub_connect_url = os.environ.get("AITNE_HUB_CONNECT_URL") or None
c.Spawner.poll_interval = 5
c.Spawner.start_timeout = 120
# A restarted Hub gives up a server that does not answer for this time, although its job may be
# suspended or busy. The platform knows when a job has ended; until then no server is given up.
c.Spawner.http_timeout = 24 * 3_600
hub.init_spawners_timeout = 2
