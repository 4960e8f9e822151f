"""Batch scripts for sbatch: conversion to job files, with the notes on the terminal."""

from __future__ import annotations

import os

from aitne.cli import output
from aitne.core.errors import InvalidInput
from aitne.core.jobs.sbatch_call_parser import SbatchCall, read_call
from aitne.core.jobs.sbatch_conversion_state import Note
from aitne.core.jobs.sbatch_import import ImportedScript, import_sbatch, is_batch_script


def decode_script(data: bytes, name: str) -> str | None:
    """Return the text of a file that begins with ``#!``; None if it is no batch script for sbatch.

    Raises ``InvalidInput`` if the file is not text.
    """
    text = decode_text(data, name)
    return text if is_batch_script(text) else None


def decode_text(data: bytes, name: str) -> str:
    """Return the text of a script. Raises ``InvalidInput`` if it is not text."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not text (byte {error.start}): is it a script?") from error


def convert_script(
    text: str, path: str, *, call: SbatchCall | None = None, synced: str | None = None
) -> ImportedScript:
    """Convert a batch script as sbatch would read it in the current folder, and print the notes.

    Args:
        text: the batch script.
        path: its path, or ``-`` for the standard input.
        call: command line and environment of sbatch; None: only the environment.
        synced: folder in a copy of which the job runs; None: none is uploaded.

    Raises ``InvalidInput`` for a script that sbatch refuses or that cannot become a job.
    """
    label = "standard input" if path == "-" else path
    try:
        call = call or read_call((), os.environ)
        imported = import_sbatch(
            text,
            os.getcwd(),
            path,
            call=call,
            synced=None if synced is None else os.path.abspath(synced),
        )
    except ValueError as error:
        raise InvalidInput(f"{label}: {error}.") from error
    for note in imported.notes:
        output.print_message(_format_note(label, note))
    return imported


def _format_note(label: str, note: Note) -> str:
    place = f"{label}:{note.line}" if note.line else label
    word = "" if note.changes_execution else " (the job runs the same)"
    return (
        f"{place}: {output.to_single_line(note.option)} {output.to_single_line(note.message)}{word}"
    )
