"""Extensions that run inside JupyterHub."""
