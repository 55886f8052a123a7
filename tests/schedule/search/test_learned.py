"""Learnt oracles: what they are learnt from, that they come closer than the estimate on regions that were left out, and files that do not fit."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.operations.made import load_machine
from tests.schedule.made_regions import Builder
from tests.schedule.search.made_graphs import space_on
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.search.draft import Space
from toolchain.schedule.search.learned import Facts, LearnedOracle, Sample, draw_samples, facts_of, learn, oracle_named, read_oracle
from toolchain.schedule.search.prices import Prices, estimate, exact
from toolchain.schedule.search.templates import find_embeddings, fusion_graph, load_templates
from toolchain.spec.errors import UserError

VTA = load_machine("vta")
KERNELS = load_kernels(VTA)


@cache
def drawn(seed: int) -> list[Sample]:
    """The groups of a random region of six operations."""
    region = Builder(np.random.default_rng(seed), {kernel.computes for kernel in KERNELS.values()}).region(6)
    return list(draw_samples(Space(VTA, KERNELS, region, Options())))


@cache
def learnt() -> LearnedOracle:
    return learn(VTA, [sample for seed in range(4) for sample in drawn(seed)])


def test_an_oracle_comes_closer_than_the_estimate_on_regions_that_it_has_not_seen() -> None:
    off = learnt().deviation([sample for seed in range(100, 103) for sample in drawn(seed)])
    assert off.groups > 15
    assert off.mean < 0.8 * off.plain_mean


def test_a_sample_is_a_group_with_the_cycles_of_its_program() -> None:
    space = space_on("vta")
    prices = Prices(space)
    samples = list(draw_samples(space))
    planner = prices.planner((2, 3))
    assert Sample(facts_of(planner), exact(planner)) in samples
    assert facts_of(planner).estimate == pytest.approx(estimate(planner))
    assert len(samples) < len(space.graph) + len(find_embeddings(load_templates(VTA), fusion_graph(space.region))), "equal groups are drawn once"


def test_what_is_learnt_twice_is_the_same_and_is_read_back(tmp_path: Path) -> None:
    samples = drawn(0) + drawn(1)
    found = learn(VTA, samples)
    assert learn(VTA, samples).text() == found.text()
    (path := tmp_path / "oracle.json").write_text(found.text())
    read = read_oracle(path, VTA)
    assert read == found
    planner = Prices(space_on("vta")).planner((2, 3))
    assert oracle_named(str(path), VTA)(planner) == found.price(planner)


def test_facts_beyond_all_that_was_seen_do_not_run_away() -> None:
    samples = drawn(0) + drawn(1)
    facts = samples[0].facts
    far, further = (learnt().priced(Facts(facts.estimate, tuple(factor * value for value in facts.values))) for factor in (1e6, 1e9))
    assert far == further


def test_two_groups_are_the_least() -> None:
    with pytest.raises(UserError, match="E1012 1 groups are too few"):
        learn(VTA, drawn(0)[:1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree | {"machine": "dpuv3"}, "E1012 this oracle was learnt for machine 'dpuv3'"),
        (lambda tree: tree | {"units": ["load"]}, "E1012 this oracle was learnt for machine 'vta' with the units load;"),
        (lambda tree: tree | {"weights": tree["weights"][1:]}, "E1012 this is not as"),
        (lambda tree: tree | {"spread": [0.0, *tree["spread"][1:]]}, "E1012 this is not as"),
        (lambda tree: tree | {"more": 1}, "E1012 this is not as"),
        (lambda tree: {key: value for key, value in tree.items() if key != "mean"}, "E1012 this is not as"),
    ],
)
def test_files_that_do_not_fit(change: Callable[[dict[str, object]], dict[str, object]], words: str, tmp_path: Path) -> None:
    (path := tmp_path / "oracle.json").write_text(json.dumps(change(json.loads(learnt().text()))))
    with pytest.raises(UserError, match=words):
        read_oracle(path, VTA)


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "null", '{"format": 1}', '{"mean": [NaN]}', "\xff"])
def test_files_that_are_no_oracles(text: str, tmp_path: Path) -> None:
    (path := tmp_path / "oracle.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match="E1012 this is not as `tilewright fusion learn` writes it"):
        read_oracle(path, VTA)


def test_an_unknown_oracle_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="E1202 there is no oracle 'exakt'; did you mean 'exact'"):
        oracle_named("exakt", VTA)
