"""Definitions of the commands, one module for each group, imported when one of its commands is
used."""
