"""Floor 3: what runs inside JupyterHub."""
