"""Operations of administrators on the host of the platform: setup, checks, backup, upgrade, acceptance.

They run as commands (`aitne admin ...`), while the platform runs or not, and use its adapters and
services without its API.
"""
