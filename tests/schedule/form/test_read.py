"""Whatever a file holds, it is a schedule or refused: never a traceback."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import REGIONS, read, text_of
from tests.schedule.test_compile_region import KERNELS, MACHINES
from toolchain.schedule.form.realise import realise
from toolchain.spec.errors import UserError

WORDS = ("0", "1", "-1", "2.0", "1e5", "4611686018427387903", "99999999999999999999", "x", "fm", "pm", "true", "null", "[]", "{}", "[[0, 0]]", "''")


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
