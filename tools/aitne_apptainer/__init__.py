"""Apptainer for development: on Debian, ``make apptainer`` installs it where it is missing."""
