"""Start of the single-user server in the session's environment, with its modules imported in
advance.

The agent starts ``<session env>/bin/python -I launcher.py --notebook FOLDER`` in the job's working
directory as soon as the job runs; FOLDER has the platform's packages for notebooks. While the agent requests the server's parameters from JupyterHub, the launcher imports
the slow modules. Then it reads one line of JSON, ``{"env": {…}, "args": […], "session": {…}}``,
from standard input, sets these environment variables and starts the server; with ``"tls"`` it first
gets a certificate and serves only TLS. If standard input ends before that line, no server is
wanted: it exits with status 1 and no message.

It may import only the standard library and Jupyter, and no other module of this package.
"""

from __future__ import annotations

import atexit
import errno
import gc
import json
import os
import re
import shutil
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

# jsonschema takes it as an optional checker of one string format, and it builds a grammar for a
# second while it is imported.
SKIPPED = "rfc3987_syntax"

# The Hub's own half of the jupyterhub package, which the single-user half imports and never uses:
# a third of the import time and 30 MB of every session.
HUB_ONLY = (
    "jupyterhub.orm",
    "jupyterhub.handlers",
    "jupyterhub.handlers.pages",
    "sqlalchemy",
    "sqlalchemy.exc",
)
NEEDED_BYTES = 1 << 20
"""Space in the user's home in bytes that the server's own files need."""
PLAIN, NOTEBOOK = "--plain", "--notebook"
LOGIN_CACHED_S = 60
"""Seconds for which the server caches a login. JupyterHub reports ended logins immediately, so this
may be long.
"""

# Modules that the server imports at its start, in an order that avoids import cycles.
EARLY = (
    "jupyterhub.singleuser.extension",
    "jupyter_server.serverapp",
    "jupyterlab",
    "jupyterlab.labapp",
    "jupyter_server_terminals",
    "terminado",
    "ipykernel.kernelspec",
    "jupyter_client.ioloop",
    "jupyter_server.services.contents.largefilemanager",
)

SLIM = (
    # Language servers are not installed, and the classic notebook's paths are not served.
    "--ServerApp.jpserver_extensions=jupyter_lsp=False",
    "--ServerApp.jpserver_extensions=nbdime=False",
    "--ServerApp.jpserver_extensions=notebook_shim=False",
    # Its clusters are processes of the session; ranks are jobs.
    "--ServerApp.jpserver_extensions=ipyparallel=False",
    # The default manager queries PyPI.
    "--LabApp.extension_manager=readonly",
    "--LabApp.news_url=None",
    # Defaults of the user's settings: above all, no question about news. And the extensions of
    # packages that a session does not offer.
    f"--LabApp.app_settings_dir={Path(__file__).with_name('lab')}",
    # The bar with the time left, and what saves before an idle session is ended.
    f"--LabApp.extra_labextensions_path={Path(__file__).with_name('lab') / 'labextensions'}",
    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    # Kernels listen on loopback, where other users of the node could read what they publish.
    "--MappingKernelManager.transport_encryption=auto",
    # File > Shut Down ends the session; JupyterHub hides it otherwise.
    "--ServerApp.quit_button=True",
)


SERVER = Path(__file__).with_name("lab") / "server"
"""Folder of the platform's server extensions."""


class _StandIn(ModuleType):
    """Module that has every attribute; each is a distinct exception class that is never raised."""

    __path__ = ()  # type: ignore[assignment]  # a package that finds nothing

    def __getattr__(self, name: str) -> type[Exception]:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


def import_early(*, plain: bool) -> None:
    """Import the modules that the server needs. Unless ``plain``, modules that only JupyterHub
    itself needs are replaced by stand-ins, which saves time.

    The stand-ins are removed afterwards, so that an extension that needs the real module gets it.
    """
    stand_ins: dict[str, ModuleType | None] = {}
    if not plain:
        stand_ins = {name: _StandIn(name) for name in HUB_ONLY} | {SKIPPED: None}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]  # None marks a module as missing
    try:
        for name in EARLY:
            import_module(name)
    finally:
        for name in stand_ins:
            del sys.modules[name]


def leave_full_home() -> list[str]:
    """If no space is left in the user's home, keep the server's own files in a temporary folder, so
    that the user can log in to delete files; return the options that this needs.

    Deleted files then do not go to the trash, which is in the home, too.
    """
    home = os.path.expanduser("~")
    try:
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(b"\0" * NEEDED_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
        return []
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return []
        reason = error.strerror
    folder = tempfile.mkdtemp(prefix="aitne-session-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["JUPYTER_RUNTIME_DIR"] = f"{folder}/runtime"
    os.environ["IPYTHONDIR"] = f"{folder}/ipython"
    sys.stderr.write(
        f"No space is left in your home {home} ({reason}; `aitne storage` shows quota and use). This "
        f"session keeps its own files in {folder}. Delete files that you no longer need; what you "
        "delete in it does not go to the trash.\n"
    )
    return [
        "--FileContentsManager.delete_to_trash=False",
        f"--LabApp.workspaces_dir={folder}/workspaces",
    ]


def make_workspace_options() -> list[str]:
    """Return the option that sets the folder of JupyterLab's workspaces; empty without a valid
    ``AITNE_WORKSPACE``.

    The folder is in the user's home and shared by this session and those that continue it.
    """
    name = os.environ.get("AITNE_WORKSPACE", "")
    if re.fullmatch(r"[0-9a-f-]{36}", name) is None:
        return []
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return [f"--LabApp.workspaces_dir={data}/aitne/workspaces/{name}"]


def make_extension_options() -> list[str]:
    """Return the options that enable the platform's own extensions; TensorBoard's only if
    TensorBoard is installed.
    """
    names = ["aitne_isolation", "aitne_kernelspecs", "aitne_session_bar"]
    if find_spec("tensorboard") is not None:
        names.append("aitne_tensorboard")
    return [f"--ServerApp.jpserver_extensions={name}=True" for name in names]


def ignore_session_id() -> None:
    """Make the server ignore the cookie jupyterhub-session-id, which another user's server could
    set.
    """
    auth = import_module("jupyterhub.services.auth")
    auth.HubAuth.get_session_id = lambda self, handler: "-"


def set_hub_request_options(tls: ssl.SSLContext | None) -> None:
    """Set the Host header and TLS options of the server's requests to JupyterHub, since the proxy
    in front of it selects by host name and not by address.

    With https the certificate is checked for that name, whatever address is connected. ``tls``
    contains the trusted CAs; None: those of the system.
    """
    hub = urlsplit(os.environ.get("JUPYTERHUB_HOST", ""))
    if not hub.netloc and tls is None:
        return
    real = import_module("jupyterhub.httpclient").fetch

    async def fetch(url: str, **options: Any) -> Any:
        if hub.netloc:
            options["headers"] = {**(options.get("headers") or {}), "Host": hub.netloc}
        if url.startswith("https:"):
            if hub.netloc:
                options["server_hostname"] = hub.hostname
            if tls is not None:
                options["ssl"] = tls
        return await real(url, **options)

    # Both modules import it under their own name.
    for name in ("jupyterhub.services.auth", "jupyterhub.singleuser.extension"):
        import_module(name).fetch = fetch  # type: ignore[attr-defined]


def runs_in_platform_environment() -> bool:
    """Return whether this Python is that of the platform's environment of sessions, and not of an
    image or an environment that the site names.
    """
    return Path(sys.prefix, ".complete").is_file()


def main() -> None:
    """Import the modules, wait for the server's parameters on standard input, and run the server."""
    for name in [name for name in os.environ if name.startswith(("JUPYTERHUB_", "JPY_"))]:
        del os.environ[name]
    # Read at import.
    os.environ["JUPYTERHUB_SINGLEUSER_EXTENSION"] = "1"
    plain = PLAIN in sys.argv[1:]
    try:
        import_early(plain=plain)
    except (ImportError, AttributeError, TypeError) as error:
        if plain and isinstance(error, ImportError) and runs_in_platform_environment():
            raise SystemExit(f"The environment of sessions was changed: {error}") from error
        if plain:
            raise
        # Another version of JupyterHub, which needs more than the stand-ins have.
        os.execv(sys.executable, [sys.executable, "-I", __file__, PLAIN, *sys.argv[1:]])  # noqa: S606
    gc.freeze()

    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise SystemExit(1)
    handover = json.loads(line)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)

    os.environ.update(handover["env"])
    full_home = leave_full_home()
    sys.path.append(str(SERVER))
    if NOTEBOOK in sys.argv:
        notebook = sys.argv[sys.argv.index(NOTEBOOK) + 1]
        import_module("aitne_kernelspecs").set_notebook_folder(notebook)
    if "session" in handover:
        import_module("aitne_session_bar").configure(**handover["session"])
    tls, options = handover.get("tls"), list[str]()
    if tls is not None:
        certificate = import_module("aitne_certificate")
        options = certificate.make_server_options(**tls)
    ignore_session_id()
    set_hub_request_options(
        None if tls is None else certificate.make_trusting_context(tls["authority"])
    )
    root = ["--allow-root"] if os.geteuid() == 0 else []
    arguments = [
        *SLIM,
        # Its default was read at import, before the hand-over, and cookies would go to every server.
        f"--HubOAuth.base_url={os.environ['JUPYTERHUB_SERVICE_PREFIX']}",
        f"--HubOAuth.cache_max_age={LOGIN_CACHED_S}",
        *options,
        *(full_home or make_workspace_options()),
        *make_extension_options(),
        f"--ServerApp.root_dir={os.getcwd()}",
        *root,
        *handover["args"],
    ]
    sys.argv[1:] = arguments
    import_module("jupyterhub.singleuser").main(arguments)


if __name__ == "__main__":
    main()
