"""Whatever a file holds, it is a schedule or refused: never a traceback. Names of tensors and operations are any text; what is written is read
back."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import REGIONS, read, text_of
from tests.schedule.test_compile_region import KERNELS, MACHINES
from toolchain.schedule.form.files import HEAD, write_schedule
from toolchain.schedule.form.realise import realise
from toolchain.spec.errors import UserError

WORDS = ("0", "1", "-1", "2.0", "1e5", "4611686018427387903", "99999999999999999999", "x", "fm", "pm", "true", "null", "[]", "{}", "[[0, 0]]", "''")

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def broken(text: str, draw: st.DataObject) -> str:
    """The text with a few words, lines or characters changed."""
    for _ in range(draw.draw(st.integers(1, 4))):
        lines = text.splitlines(keepends=True)
        number = draw.draw(st.integers(0, len(lines) - 1))
        match draw.draw(st.sampled_from(("word", "word", "word", "drop", "twice", "swap", "cut"))):
            case "word":
                found = list(re.finditer(r"\w+|\[[^]]*\]", lines[number]))
                if found:
                    one = draw.draw(st.sampled_from(found))
                    lines[number] = lines[number][: one.start()] + draw.draw(st.sampled_from(WORDS)) + lines[number][one.end() :]
            case "drop":
                del lines[number]
            case "twice":
                lines.insert(number, lines[number])
            case "swap":
                other = draw.draw(st.integers(0, len(lines) - 1))
                lines[number], lines[other] = lines[other], lines[number]
            case _:
                lines[number] = lines[number][: draw.draw(st.integers(0, len(lines[number])))] + "\n"
        text = "".join(lines) or "\n"
    return text


@pytest.mark.parametrize("name", ["vta", "dpuv3"])
@settings(max_examples=50, deadline=None)
@given(draw=st.data())
def test_any_text_is_a_schedule_or_refused(name: str, draw: st.DataObject) -> None:
    text = broken(text_of(name), draw)
    try:
        found = realise(MACHINES[name], KERNELS[name], REGIONS[name](), read(text))
    except UserError as error:
        assert str(error).startswith("mine.yaml"), (text, error)  # noqa: PT017
    else:
        assert len(found.tilings) == len(found.region.operations)


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
