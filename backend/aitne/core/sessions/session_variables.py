"""Names of what programs in a session find in their environment to use the platform.

Imports nothing: the client uses it too.
"""

from __future__ import annotations

PREFIX = "aitne_ses_"
"""First characters of every session token."""
URL = "AITNE_URL"
"""Environment variable with the address of the platform."""
TOKEN = "AITNE_TOKEN"  # noqa: S105 - a name
"""Environment variable with the session token."""
SESSION = "AITNE_SESSION"
"""Environment variable with the ID of the session."""
PROJECT = "AITNE_PROJECT"
"""Environment variable with the project of the session."""
CA_FILE = "AITNE_CA_FILE"
"""Environment variable with the path of CA certificates to trust at the address in ``URL``."""
