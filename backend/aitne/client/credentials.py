"""Access tokens stored by ``aitne login``: ``~/.config/aitne/credentials.json``, mode 0600."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def config_dir() -> str:
    """Return the folder of the configuration, ``$XDG_CONFIG_HOME/aitne``."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "aitne")


def credentials_file() -> str:
    """Return the path of the file that stores an access token for each platform's address."""
    return os.path.join(config_dir(), "credentials.json")


def normalize_url(url: str) -> str:
    """Return an address in its normal form: scheme and host in lower case, no slash at the end."""
    address = url.strip().rstrip("/")
    if "://" not in address:
        address = f"http://{address}"
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}"


def find_token(url: str) -> str | None:
    """Return the token that ``aitne login`` stored for ``url``; None if there is none."""
    return _read_entry(url).get("token")


def find_ca_file(url: str) -> str | None:
    """Return the path of the CA certificates to trust for ``url``; None if no such file was given
    at login."""
    return _read_entry(url).get("ca_file")


def find_last_url() -> str | None:
    """Return the address of the platform of the last ``aitne login``; None if there was none."""
    address = _load_credentials().get("last")
    return address if isinstance(address, str) else None


def store_token(url: str, token: str, user: str, *, ca_file: str | None = None) -> None:
    """Store a token and the path of the CA certificates to trust for ``url``, and remember it as
    the last login. The file is readable only by its owner.

    Raises:
        SetupError: the file cannot be written.
    """
    credentials = _load_credentials()
    address = normalize_url(url)
    credentials["platforms"][address] = {"token": token, "user": user}
    if ca_file is not None:
        credentials["platforms"][address]["ca_file"] = ca_file
    credentials["last"] = address
    path = credentials_file()
    half = f"{path}.{os.getpid()}"
    try:
        os.makedirs(config_dir(), mode=0o700, exist_ok=True)
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(credentials, file, indent=2)
            file.write("\n")
        os.replace(half, path)
    except OSError as error:
        from aitne.core.errors import SetupError

        raise SetupError(
            f"{path} cannot be written ({error.strerror}), so the login would be lost. Make the "
            "folder writable, or pass the token in AITNE_TOKEN."
        ) from error


def _read_entry(url: str) -> dict[str, Any]:
    entry = _load_credentials()["platforms"].get(normalize_url(url))
    return entry if isinstance(entry, dict) else {}


def _load_credentials() -> dict[str, Any]:
    path = credentials_file()
    try:
        with open(path, encoding="utf-8") as file:
            credentials = json.load(file)
    except FileNotFoundError:
        credentials = {}
    except (OSError, ValueError) as error:
        from aitne.core.errors import SetupError

        raise SetupError(
            f"{path} cannot be read: {error}. Repair or remove it, then log in again."
        ) from error
    if not isinstance(credentials, dict):
        credentials = {}
    if not isinstance(credentials.get("platforms"), dict):
        credentials["platforms"] = {}
    return credentials
