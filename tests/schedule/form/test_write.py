"""Names of tensors and operations are any text; what is written is read back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schedule.form.edits import read, text_of
from toolchain.schedule.form.write import HEAD, write_schedule

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(NAMES)
def test_any_name_survives(name: str) -> None:
    schedule = read(text_of("dpuv3"))
    one = replace(schedule, region=name, buffers=tuple(replace(buffer, tensor=name) for buffer in schedule.buffers))
    assert read(write_schedule(one)) == one


@pytest.mark.parametrize("name", ["true", "null", "1", "0x10", "-", "a: b", "a #b", "two words", "conv/add_1", ""])
def test_words_that_yaml_takes_otherwise_survive(name: str) -> None:
    one = replace(read(text_of("dpuv3")), machine=name)
    assert read(write_schedule(one)).machine == name


def test_a_few_lines_an_operation() -> None:
    text = write_schedule(read(text_of("dpuv3")))
    assert text == text_of("dpuv3")
    assert text.startswith(HEAD)
    assert len(text.splitlines()) <= 4 + 4 + 6 * 4
