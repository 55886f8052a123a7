"""Templates: names that they and their imports use, rendered once for what they see, errors in one line."""

from pathlib import Path

import pytest

from toolchain.schedule.kernels.render import Renderer, render
from toolchain.spec.errors import UserError


def write(folder: Path, **templates: str) -> Path:
    for name, text in templates.items():
        (folder / f"{name}.j2").write_text(text)
    return folder


def test_a_template_is_rendered_once_for_what_it_and_its_imports_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def counted(folder: Path, name: str, scope: dict[str, object]) -> str:
        done.append(name)
        return render(folder, name, scope)

    folder = write(tmp_path, a='{% import "b.j2" as b with context %}\nA {{ b.part() }} {{ x }}\n\n', b="{% macro part() %}{{ y }}{% endmacro %}")
    monkeypatch.setattr("toolchain.schedule.kernels.render.render", counted)
    renderer = Renderer()
    found = [renderer.lines(folder, "a.j2", {"x": 1, "y": y, "unused": z}) for y, z in ((2, 0), (2, 1), (3, 1))]
    assert found == [("A 2 1\n",), ("A 2 1\n",), ("A 3 1\n",)]
    assert len(done) == 2


@pytest.mark.parametrize(
    ("text", "message"), [("{% if %}", "cannot read the template"), ('{% import "none.j2" as n %}', "the template fails"), ("{{ x }}", "undefined")]
)
def test_a_broken_template_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"E1005 .*{message}"):
        Renderer().lines(write(tmp_path, a=text), "a.j2", {})
