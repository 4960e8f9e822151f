"""Command line of the platform.

``commands`` defines the commands with Typer, one file per noun; ``registry`` collects them, and
``table`` (written by `make gen`) names their modules, which are imported when they are used.
``views`` has what they print, without Typer. `aitne ps` takes less time than loading Typer:
``quick`` reads a plain command line of such a command itself.
"""
