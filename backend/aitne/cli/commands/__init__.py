"""Definitions of the verbs: one module per group, imported when one of its verbs is used."""
