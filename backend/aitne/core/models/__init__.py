"""Data models. Models for external input are strict (``Strict``); those for stored and internal
values are immutable (``Frozen``).
"""
