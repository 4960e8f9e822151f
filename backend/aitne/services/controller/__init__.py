"""The controller: submits, polls, reconciles, connects sessions. One leads at a time."""

from aitne.services.controller.loop import Controller

__all__ = ["Controller"]
