"""Output of the commands, and the functions of the commands that ``quick_commands`` runs without Typer.

These modules import as little as possible, so that they start fast.
"""
