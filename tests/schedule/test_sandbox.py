"""Templates that a user brings: pure, bounded, inside their folder, and every mistake one line with its place. Templates: names that they and
their imports use, rendered once for what they see, errors in one line."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.schedule.sandbox import MAX_BYTES, Renderer, render
from toolchain.schedule.sandbox import render as render_template
from toolchain.spec.errors import UserError


def refused(folder: Path, text: str | bytes, name: str = "a.j2") -> str:
    """The message for a template whose fault is in its second line."""
    (folder / name).write_bytes(b"\n" + (text.encode() if isinstance(text, str) else text))
    with pytest.raises(UserError) as error:
        render(folder, name, {})
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "E1005"
    assert "\n" not in diagnostic.render()
    return diagnostic.headline()


MISTAKES = {
    "{% if %}": "cannot read the template",
    "{{ 1 | uper }}": "there is no filter 'uper'; did you mean 'upper'?",
    "{{ 1 is definde }}": "there is no test 'definde'; did you mean 'defined'?",
    "{% if false %}{{ 1 | nosuch }}{% endif %}": "there is no filter 'nosuch'",
    "{{ x_slot }}": "'x_slot' is undefined",
    "{% include 'a.j2' %}": "it includes or calls itself without end",
    "{% include 'none.j2' %}": "there is no template 'none.j2'",
    "{% include name %}": "must be written out",
    "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}": "it calls macros more than 40 deep",
    "{{ [].pop() }}": "'pop' of 'list' object is unsafe",
    "{{ 2 ** 100000000 // 3 }}": "a number of more than 4096 bits",
    "{{ 1 // 0 }}": "by zero",
    "{{ {}['a'] }}": "has no attribute 'a'",
    "{{ " + "9" * 5000 + " }}": "a number of more than 1000 digits",
    "{{ ''.__class__ }}": "unsafe",
    "{% block a %}{% endblock %}": "not allowed",
    "{% for x in [] recursive %}{{ loop([]) }}{% endfor %}": "recursive loops are not allowed",
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.items(), ids=map(str, range(len(MISTAKES))))
def test_a_mistake_is_one_line_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    found = refused(tmp_path, text)
    assert found.startswith(f"{tmp_path}/a.j2:2: E1005 ")
    assert words in found


@pytest.mark.parametrize("text", ["{% for a in [1] %}" * 40 + "{% endfor %}" * 40, "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}"])
def test_deep_nesting_is_one_line(text: str, tmp_path: Path) -> None:
    assert "nested" in refused(tmp_path, text)


def test_a_fault_in_an_import_names_the_imported_template(tmp_path: Path) -> None:
    (tmp_path / "b.j2").write_text("\n\n{% macro part() %}{{ 1 // 0 }}{% endmacro %}")
    assert refused(tmp_path, '{% import "b.j2" as b %}{{ b.part() }}').startswith(f"{tmp_path}/b.j2:3: E1005 ")


DOUBLED = "{% set n = namespace(s=START) %}{% for i in range(80) %}{% set n.s = AGAIN %}{% endfor %}"
BOMBS = [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(35) }}",
    "{{ range(10 ** 12) | list }}",
    "{{ range(10 ** 12) | sum }}",
    "{{ 'x' | indent(10 ** 8, true) }}",
    "{{ 'x' * 10 ** 9 }}",
    "{{ [1] * 10 ** 9 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10 ** 9, 1) }}",
    "{{ '%.1000000000f' | format(1.0) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10 ** 9) }}",
    "{{ 5 | round(-1000000000) }}",
    "{{ 'ab' | replace('', 'x' * 1000000) | replace('x', 'y' * 1000000) }}",
    "{% set l = range(100000) | list %}{{ l | select('in', l) | list | length }}",
    "{% set l = range(100000) | list %}{% for a in l %}{% if a in l %}{% endif %}{% endfor %}",
    "{% set l = range(100000) | list %}{% for a in l %}{% set b = l[:] %}{% endfor %}",
    "{% for a in range(2000000) %}" + "many words " * 100 + "{% endfor %}",
    DOUBLED.replace("START", "'ab'").replace("AGAIN", "n.s ~ n.s"),
    DOUBLED.replace("START", "'ab'").replace("AGAIN", "[n.s, n.s] | join"),
    DOUBLED.replace("START", "'ab'").replace("AGAIN", "'%s%s' % (n.s, n.s)"),
    DOUBLED.replace("START", "'ab'").replace("AGAIN", "'{0}{0}'.format(n.s)"),
    DOUBLED.replace("START", "[1]").replace("AGAIN", "n.s + n.s"),
    DOUBLED.replace("START", "3").replace("AGAIN", "n.s * n.s"),
    "{% set n = namespace(s='ab') %}{% for i in range(80) %}{% set x %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = x %}{% endfor %}",
]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("text", BOMBS, ids=map(str, range(len(BOMBS))))
def test_work_without_end_is_refused_soon(text: str, tmp_path: Path) -> None:
    start = time.process_time()
    refused(tmp_path, text)
    assert time.process_time() - start < 20


CHANCE = [
    "{{ lipsum() }}",
    "{{ [1, 2] | random }}",
    "{{ 'a'.upper }}",
    "{{ 'a'.upper ~ '' }}",
    "{{ '%s' % 'a'.upper }}",
    "{{ '{0.upper}'.format('a') }}",
]


@pytest.mark.parametrize("text", CHANCE)
def test_chance_and_addresses_do_not_show(text: str, tmp_path: Path) -> None:
    refused(tmp_path, text)


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("word of mouth")
    (inside := tmp_path / "machine").mkdir()
    (inside / "link.j2").symlink_to(tmp_path / "secret")
    os.mkfifo(inside / "pipe.j2")
    for name, words in {"link.j2": "leads out of", "pipe.j2": "is no file", "../secret": "secret"}.items():
        found = refused(inside, "{% include '" + name + "' %}")
        assert words in found
        assert "mouth" not in found


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "b.j2").write_text("word")
    (tmp_path / "a.j2").symlink_to("b.j2")
    assert render(tmp_path, "a.j2", {}) == "word"


def test_a_text_that_is_none_and_one_that_is_large(tmp_path: Path) -> None:
    assert "not UTF-8 text at byte 0x1" in refused(tmp_path, b"\xff\xfe")
    (tmp_path / "a.j2").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(UserError, match="E0330"):
        render(tmp_path, "a.j2", {})


def test_a_template_written_again_is_read_again(tmp_path: Path) -> None:
    for text in ("first", "second one"):
        (tmp_path / "a.j2").write_text(text)
        assert render(tmp_path, "a.j2", {}) == text


@given(st.lists(st.integers(-(10**9), 10**9), max_size=8), st.text("ab\n", max_size=8))
def test_ordinary_templates_write_what_jinja_writes(tmp_path_factory: pytest.TempPathFactory, numbers: list[int], word: str) -> None:
    """The sandbox refuses; it never changes a result."""
    import jinja2

    text = (
        "{% macro twice(x, y=1) %}{{ x ~ '-' ~ (x + y) }}{% endmacro %}"
        "{% for n in numbers if n % 2 %}{{ loop.index }}{{ twice(n) }}{{ ',' if not loop.last }}{% else %}none{% endfor %}"
        "{{ numbers | sort | map('abs') | join(' ') }} {{ numbers | sum }} {{ '%03x|%s' % (numbers | length, word) }} "
        "{{ '{:>4}{!r}'.format(7, word) }}"
        "{{ word | indent(3) }}{{ word | replace('a', 'bb') | upper }}{{ [numbers | max, 2] | min if numbers }}"
        "{{ 3 * word }}{{ numbers[1:] | length }}"
        "{% set n = namespace(sum=0) %}{% for i in range(4) %}{% set n.sum = n.sum + i ** 2 %}{% endfor %}{{ n.sum // 3 }}{{ 2 in numbers }}"
    )
    folder = tmp_path_factory.mktemp("same")
    (folder / "a.j2").write_text(text)
    scope = {"numbers": numbers, "word": word}
    assert render(folder, "a.j2", scope) == jinja2.Template(text, trim_blocks=True, lstrip_blocks=True).render(scope)


def write(folder: Path, **templates: str) -> Path:
    for name, text in templates.items():
        (folder / f"{name}.j2").write_text(text)
    return folder


def test_a_template_is_rendered_once_for_what_it_and_its_imports_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def counted(folder: Path, name: str, scope: dict[str, object]) -> str:
        done.append(name)
        return render_template(folder, name, scope)

    folder = write(tmp_path, a='{% import "b.j2" as b with context %}\nA {{ b.part() }} {{ x }}\n\n', b="{% macro part() %}{{ y }}{% endmacro %}")
    monkeypatch.setattr("toolchain.schedule.sandbox.render", counted)
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
