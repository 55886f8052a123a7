"""`tilewright fusion`: groups with prices as data; each runs as a program of its own."""

import json
from pathlib import Path

import pytest

from toolchain.cli import main


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test builds the network that others take over."""
    return tmp_path_factory.mktemp("fusion")


@pytest.fixture(autouse=True)
def here(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared)


def test_the_groups_of_a_network_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fusion", "list", "target=vta", "model=digits", "--json"]) == 0
    (region,) = json.loads(capsys.readouterr().out)
    prices = {name: cover["cycles"] for name, cover in region["covers"].items()}
    assert prices["optimal"] <= prices["paths"] <= prices["greedy"] <= region["apart"]
    (pair,) = (row for row in region["embeddings"] if row["operations"] == ["conv5", "add2"])
    assert pair["template"] == "pair"
    assert pair["together"] < pair["apart"]
    assert pair["saved_bytes"] > 0


def test_an_unknown_oracle_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fusion", "list", "target=vta", "model=digits", "--oracle", "guess"]) == 2
    assert "E1202 there is no oracle 'guess'" in capsys.readouterr().err


OTHER = """\
model: {name: other, summary: a network that is held out}
inputs: {image: [1, 16, 12, 12]}
layers:
  - conv: {name: first, out: 16, kernel: 3, pad: half, act: relu}
  - add: {of: [first, [conv: {out: 16, kernel: 3, pad: half}]]}
  - maxpool: {kernel: 2, stride: 2}
  - conv: {out: 32, kernel: 1, act: relu}
"""


@pytest.mark.nightly
def test_an_oracle_is_learnt_and_prices_groups(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shared / "other.yaml").write_text(OTHER)
    assert main(["fusion", "learn", "target=vta", "model=digits,other.yaml", "--held-out", "other"]) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[0] == "model"
    assert [row[:2] for row in rows[:2]] == [["digits", "learnt"], ["other", "held"]]
    assert main(["fusion", "list", "target=vta", "model=digits", "--oracle", "oracle.json", "--json"]) == 0
    (region,) = json.loads(capsys.readouterr().out)
    assert main(["fusion", "list", "target=vta", "model=digits", "--oracle", "exact", "--json"]) == 0
    (exact,) = json.loads(capsys.readouterr().out)
    assert region["apart"] == pytest.approx(exact["apart"], rel=0.15)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["model=digits", "--held-out", "digit"], 2, "E1202 'digit' cannot be held out"),
        (["model=digits", "--held-out", "digits"], 1, "E1012 0 groups are too few"),
        (["model=digits", "target=graphengine"], 1, "E1012 an oracle is learnt for one machine; given: none"),
    ],
)
def test_what_cannot_be_learnt_from(words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    target = [] if any(word.startswith("target=") for word in words) else ["target=vta"]
    assert main(["fusion", "learn", *target, *words]) == code
    assert told in capsys.readouterr().err
