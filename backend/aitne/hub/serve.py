"""Start of JupyterHub with fewer imports.

Run as ``<hub env>/bin/python serve.py -f jupyterhub_config.py``. jsonschema optionally uses the
package ``rfc3987_syntax`` to check one string format. That package builds a grammar on import,
which takes more than half of JupyterHub's own start time and 18 MB of memory, so its import is
prevented.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # marks the module as missing

from jupyterhub.app import main  # noqa: E402

if __name__ == "__main__":
    main()
