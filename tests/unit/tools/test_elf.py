"""Programs for an older C library: the changes, and refused files."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne_apptainer import glibc_compatibility
from aitne_apptainer.installation import refit_control

PROGRAM = Path(sys.executable).resolve().read_bytes()


def test_a_program_that_runs_here_is_left_as_it_is() -> None:
    assert glibc_compatibility.unpin_program(PROGRAM, (2, 99)) is None


def test_missing_library_symbols_are_named() -> None:
    with pytest.raises(glibc_compatibility.NotMovable, match=r"it needs \w+@GLIBC_2\."):
        glibc_compatibility.unpin_program(PROGRAM, (2, 3))


@given(st.binary(max_size=300))
def test_garbage_is_refused_and_nothing_worse(content: bytes) -> None:
    with pytest.raises(glibc_compatibility.NotMovable):
        glibc_compatibility.unpin_program(glibc_compatibility.MAGIC + content, (2, 36))


def test_a_table_beyond_what_memory_can_be_is_refused() -> None:
    damaged = bytearray(PROGRAM)
    damaged[0x28:0x30] = b"\xff" * 8
    with pytest.raises(glibc_compatibility.NotMovable):
        glibc_compatibility.unpin_program(bytes(damaged), (2, 36))


@given(st.integers(0, len(PROGRAM) - 1), st.integers(0, 255), st.integers(0, len(PROGRAM)))
def test_a_damaged_program_is_refused_or_left_and_nothing_worse(
    place: int, value: int, end: int
) -> None:
    damaged = bytearray(PROGRAM)
    damaged[place] = value
    with suppress(glibc_compatibility.NotMovable):
        glibc_compatibility.unpin_program(bytes(damaged[:end]), (2, 36))


CONTROL = """Package: apptainer
Version: 1.4.5-2
Depends: squashfs-tools, libc6 (>= 2.38), libseccomp2 (>= 2.5.0)
Static-Built-Using: golang-1.24 (= 1.24.4-1),
 other (= 1)
Description: container platform
"""


def test_a_changed_package_says_so_and_asks_for_the_library_it_now_runs_on() -> None:
    text, version = refit_control(CONTROL, (2, 36), changed=True)
    assert version == "1.4.5-2"
    assert text.splitlines() == [
        "Package: apptainer",
        "Version: 1.4.5-2~aitne1",
        "Depends: squashfs-tools, libc6 (>= 2.36), libseccomp2 (>= 2.5.0)",
        "Description: container platform",
    ]
    assert refit_control(CONTROL, (2, 41), changed=False) == (CONTROL, "1.4.5-2")
