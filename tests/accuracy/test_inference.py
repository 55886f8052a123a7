"""The results of a task in a file: read back as they were, the ways in their order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.accuracy.closeness import Closeness, OutputCloseness
from toolchain.accuracy.inference import Inference, inference_text, read_inference
from toolchain.accuracy.measure import Measured

NUMBERS = st.floats(0, 1e9)
NAMES = st.text(max_size=5)
CLOSENESS = st.builds(
    Closeness,
    st.dictionaries(NAMES, st.builds(OutputCloseness, st.none() | NUMBERS, st.integers(0, 9), st.integers(0, 9), st.none() | NUMBERS, NUMBERS)),
    NAMES,
    st.none() | NUMBERS,
    st.dictionaries(NAMES, NUMBERS),
)
INFERENCES = st.builds(
    Inference,
    right=st.fixed_dictionaries({way: st.none() | NUMBERS for way in ("float", "integer", "emulator")}),
    task=st.dictionaries(NAMES, st.builds(Measured, NAMES, NUMBERS, NAMES)),
    closeness=CLOSENESS,
    **dict.fromkeys(("images", "images_per_run", "clock_khz"), st.integers(0, 1 << 40)),
    **dict.fromkeys(("cycles", "machine_ms", "total_ms"), NUMBERS),
)


@given(INFERENCES)
def test_what_is_written_is_read(found: Inference) -> None:
    again = read_inference(inference_text(found))
    assert again == found
    assert [*again.right] == [*found.right]


@given(INFERENCES, st.sampled_from(["images", "right", "closeness"]))
def test_a_file_that_lacks_a_figure_is_refused(found: Inference, name: str) -> None:
    data = json.loads(inference_text(found))
    del data[name]
    with pytest.raises(ValueError, match=f"lacks '{name}'"):
        read_inference(json.dumps(data))
