"""`tilewright fusion`: groups with prices as data; each runs as a program of its own."""

import json
from pathlib import Path

import pytest

from toolchain.cli import main, parser


def test_the_groups_of_a_network_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fusion", "list", "target=vta", "model=digits", "--json"]) == 0
    (region,) = json.loads(capsys.readouterr().out)
    prices = {name: cover["cycles"] for name, cover in region["covers"].items()}
    assert prices["optimal"] <= prices["paths"] <= prices["greedy"] <= region["apart"]
    (pair,) = (row for row in region["embeddings"] if row["operations"] == ["conv5", "add2"])
    assert pair["template"] == "pair"
    assert pair["together"] < pair["apart"]
    assert pair["saved_bytes"] > 0


def test_an_oracle_is_one_of_three() -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["fusion", "list", "target=vta", "--oracle", "guess"])
