import pytest

from toolchain.spec.errors import UserError
from toolchain.tasks.variables import Variables, read_variables


def test_everything_that_can_be_said() -> None:
    given = {
        "target": "vta:ultra96",
        "model": "digits,./mine.onnx,digits",
        "params": "LOG_BUS:4,LOG_BLOCK=5",
        "dim": "batch:1,x.0:3",
        "fallback": "no",
        "without": "squares+add_both+squares",
    }
    params, dims = (("LOG_BLOCK", "5"), ("LOG_BUS", "4")), (("batch", 1), ("x.0", 3))
    assert read_variables(given) == Variables(("vta:ultra96",), ("digits", "./mine.onnx"), params, dims, False, without=("add_both", "squares"))


def test_nothing_said() -> None:
    assert read_variables({}) == Variables((), (), (), (), True)


def test_dimensions_may_have_colons_in_their_names() -> None:
    assert read_variables({"dim": "a:b:2"}).dims == (("a:b", 2),)


@pytest.mark.parametrize(
    ("name", "value", "code", "word"),
    [
        ("tarrget", "vta", "E1201", "did you mean 'target'?"),
        ("zzz", "vta", "E1201", "known: target, model"),
        ("target", "", "E1202", "'target' is empty"),
        ("dim", "batch", "E1202", "'batch' in 'dim'"),
        ("dim", "batch:-1", "E1202", "cannot be '-1'"),
        ("dim", "batch:x", "E1202", "cannot be 'x'"),
        ("dim", "batch:\u0663", "E1202", "whole number"),
        ("params", ":3", "E1202", "NAME:VALUE"),
        ("params", "A:3,B:1,A:4", "E1202", "'A' in 'params' is 3 and 4"),
        ("model", ",", "E1202", "names none"),
        ("beyond", "hosts", "E1202", "'beyond' is error or host, not 'hosts'; did you mean 'host'?"),
        ("fallback", "maybe", "E1202", "yes or no"),
        ("without", "squares+", "E1202", "a kernel in 'without' has no name"),
        ("streams", "0", "E1202", "'streams' is a whole number from 1 on, not '0'"),
        ("streams", "two", "E1202", "not 'two'"),
    ],
)
def test_a_mistake_is_one_line(name: str, value: str, code: str, word: str) -> None:
    with pytest.raises(UserError) as raised:
        read_variables({name: value})
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == code
    assert word in diagnostic.render()
    assert "\n" not in diagnostic.render()


def test_lengths_are_sizes_of_names_with_commas_between_all() -> None:
    assert read_variables({"lengths": "b:8,16,a.1:2,4,8"}).lengths == (("a.1", (2, 4, 8)), ("b", (8, 16)))
    assert read_variables({}).lengths == ()
    assert read_variables({"beyond": "host"}).beyond == "host"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("8,16", "'8' in 'lengths' does not have the form NAME:SIZE,SIZE"),
        (":8,16", "':8' in 'lengths' does not have the form"),
        ("a:8", "'a' in 'lengths' has one size alone; a single size is dim=a:8"),
        ("a:8,4", "the sizes of 'a' in 'lengths' do not increase from 1 on: 8,4; write a:4,8"),
        ("a:0,4", "do not increase from 1 on: 0,4; write a:4"),
        ("a:8,16,b:1,2,a:3", "'a' in 'lengths' stands twice"),
        ("a:8,x", "the dimension 'a' cannot be 'x'"),
        ("a:1,2,3,4,5,6,7,8,9,b:1,2,3,4,5,6,7,8", "'lengths' has 72 combinations of sizes; at most 64"),
    ],
)
def test_lengths_that_cannot_be(value: str, word: str) -> None:
    with pytest.raises(UserError, match="E1202") as raised:
        read_variables({"lengths": value})
    assert word in str(raised.value)


def test_several_machines() -> None:
    assert read_variables({"target": "dpuv3,./mine.yaml,vta:ultra96"}).targets == ("dpuv3", "./mine.yaml", "vta:ultra96")
    with pytest.raises(UserError, match=r"E1207 'target' names 'vta' twice"):
        read_variables({"target": "vta,dpuv3,vta"})
    with pytest.raises(UserError, match=r"E1202 the variable 'target' names none: ','"):
        read_variables({"target": ","})
