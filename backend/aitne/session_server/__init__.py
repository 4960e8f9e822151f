"""The single-user server of a JupyterLab session and its extensions: programs of the user, not of the hub."""
