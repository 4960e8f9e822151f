"""Schedulers: one file each."""
