"""Command line of the platform.

``commands`` defines with Typer the verbs and their help; ``verbs`` implements the most frequent
verbs without Typer. `aitne ps` takes less time than loading Typer: ``quick`` reads a plain command
line of such a verb itself.
"""
