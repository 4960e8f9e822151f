"""Definitions of the commands: one module per noun, imported when one of its commands is used."""
