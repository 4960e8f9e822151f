"""Implementations of the quick verbs. These modules import no more than they need."""
