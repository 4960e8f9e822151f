"""Output of the commands, and the commands that ``quick`` runs without Typer.

These modules import no more than they need.
"""
