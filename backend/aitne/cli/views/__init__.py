"""Output of the commands, and the functions of the commands that ``fast_command_path`` runs without Typer.

These modules import as little as possible, so that they start fast.
"""
