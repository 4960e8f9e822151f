"""Controller: submits, polls, reconciles and connects sessions. One controller leads at a time."""

from aitne.services.controller.main_loop import Controller

__all__ = ["Controller"]
