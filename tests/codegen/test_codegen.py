"""Templates of generated code: the same text for the same names, and no name may be missing."""

import jinja2
import pytest

from toolchain.codegen import Generator, render
from toolchain.codegen.generators import GENERATORS

NAMES: dict[str, object] = {"name": '"r"', "opset": 21, "inputs": [], "outputs": [], "constants": [], "nodes": []}


def test_a_template_is_the_same_text_for_the_same_names() -> None:
    assert render("json", "graph.json.j2", **NAMES) == render("json", "graph.json.j2", **NAMES)


@pytest.mark.parametrize("missing", sorted(NAMES))
def test_a_name_that_is_missing_is_no_empty_text(missing: str) -> None:
    with pytest.raises(jinja2.UndefinedError, match=f"'{missing}' is undefined"):
        render("json", "graph.json.j2", **{name: value for name, value in NAMES.items() if name != missing})


def test_every_generator_has_the_interface() -> None:
    generators: list[Generator] = list(GENERATORS.values())
    assert len({type(generator) for generator in generators}) == len(GENERATORS)
