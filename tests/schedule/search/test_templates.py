"""Group templates: those of the toolchain, a machine's own, and every mistake with its place. Algorithm 1 finds every embedding and no other:
held against all assignments, and against networkx's matcher."""

import itertools
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from networkx.algorithms.isomorphism import DiGraphMatcher

from tests.operations.made import load_machine
from tests.schedule.search.made_graphs import inception, random_graph
from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import Operation
from toolchain.schedule.search.templates import (
    DEFAULT,
    Embedding,
    FusionGraph,
    Template,
    TemplateNode,
    find_embeddings,
    fusion_graph,
    load_templates,
    matches,
    read_templates,
)
from toolchain.spec.errors import UserError

VTA = load_machine("vta")
GOOD = """templates:
  conv_pool:
    nodes: {conv: {computes: [conv2d]}, pool: {computes: [max_pool], where: kh <= 3}}
    reads: [[conv, pool]]
"""

SEEDS = st.integers(0, 1 << 20)
KINDS = ("conv2d", "add", "max_pool")


def read(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return [template.name for template, _ in read_templates(VTA, path)]


def test_a_machine_without_templates_has_the_toolchains() -> None:
    assert [template.name for template in load_templates(VTA)] == [template.name for template, _ in read_templates(VTA, DEFAULT)]
    assert {template.name: template.direction for template in load_templates(VTA)}["two_readers"] == "horizontal"


def test_a_machine_with_templates_has_its_own_alone() -> None:
    own = {template.name: template.direction for template in load_templates(load_machine("dnnvm"))}
    assert own["conv_pool"] == "vertical"
    assert "pair" not in own


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("computes: [conv2d]", "computes: [conv3]", r"own.yaml:3:31: E1011 there is no operation 'conv3'; did you mean 'conv2d'"),
        ("[[conv, pool]]", "[[conv, pol]]", r"own.yaml:4:20: E1011 the template has no node 'pol'; did you mean 'pool'"),
        ("[[conv, pool]]", "[[conv, conv]]", r"own.yaml:4:\d+: E1011 'conv' is joined with itself"),
        ("    reads: [[conv, pool]]\n", "", r"own.yaml:\d+:\d+: E1011 'pool' of template 'conv_pool' hangs together with none"),
        ("kh <= 3", "khh <= 3", r"own.yaml:3:\d+: E0107 unknown name 'khh'"),
        ("templates:", "template:", r"own.yaml:1:1: E0108 unknown key 'template'"),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path: Path, old: str, new: str, wanted: str) -> None:
    assert read(tmp_path, GOOD) == ["conv_pool"]
    with pytest.raises(UserError, match=wanted):
        read(tmp_path, GOOD.replace(old, new))


def graph_of(seed: int, nodes: int) -> FusionGraph:
    """Random kinds; every second pair of readers of one operation shares a tensor, as readers of views need not."""
    rng, reads = np.random.default_rng(seed), random_graph(seed, nodes)
    operations = [Operation(builtin_kinds()[str(rng.choice(KINDS))], f"o{node}", {}, {}) for node in range(nodes)]
    shares: dict[int, set[int]] = {node: set() for node in range(nodes)}
    for a, b in itertools.combinations(range(nodes), 2):
        if rng.random() < 0.25:
            shares[a].add(b)
            shares[b].add(a)
    return FusionGraph(operations, reads, {node: frozenset(own) for node, own in shares.items()})


def template_of(seed: int, nodes: int) -> Template:
    """A random tree of edges over random kinds, with one edge more now and then."""
    rng = np.random.default_rng(seed)
    names = [f"n{k}" for k in range(nodes)]
    kinds = {name: TemplateNode(frozenset(rng.choice(KINDS, int(rng.integers(0, 3)), replace=False).tolist()), None) for name in names}
    reads, shares = list[tuple[str, str]](), list[tuple[str, str]]()
    for k in range(1, nodes):
        pair = names[int(rng.integers(0, k))], names[k]
        (reads if rng.random() < 0.7 else shares).append(pair)
    if nodes > 2 and rng.random() < 0.3:
        reads.append((names[0], names[-1]))
    return Template("random", kinds, tuple(dict.fromkeys(reads)), tuple(shares))


def all_assignments(template: Template, graph: FusionGraph) -> set[tuple[int, ...]]:
    """By the definition."""
    return {
        chosen
        for chosen in itertools.permutations(range(len(graph.operations)), len(template.nodes))
        if all(node.admits(graph.operations[operation]) for node, operation in zip(template.nodes.values(), chosen, strict=True))
        and all(graph.reads.has_edge(at[a], at[b]) for at in [dict(zip(template.nodes, chosen, strict=True))] for a, b in template.reads)
        and all(at[b] in graph.shares[at[a]] for at in [dict(zip(template.nodes, chosen, strict=True))] for a, b in template.shares)
    }


@given(SEEDS, SEEDS, st.integers(2, 7), st.integers(2, 4))
def test_every_assignment_is_found_once(seed: int, other: int, nodes: int, size: int) -> None:
    graph, template = graph_of(seed, nodes), template_of(other, size)
    found = [tuple(match[name] for name in template.nodes) for match in matches(template, graph)]
    assert len(found) == len(set(found))
    assert set(found) == all_assignments(template, graph)


@given(SEEDS, st.integers(2, 9))
def test_networkx_finds_the_same_chains(seed: int, nodes: int) -> None:
    graph = graph_of(seed, nodes)
    anything = TemplateNode(frozenset(), None)
    chain = Template("chain", dict.fromkeys("abc", anything), (("a", "b"), ("b", "c")), ())
    pattern: nx.DiGraph[str] = nx.DiGraph(chain.reads)
    wanted = {tuple(sorted(found)) for found in DiGraphMatcher(graph.reads, pattern).subgraph_monomorphisms_iter()}
    assert {tuple(sorted(match.values())) for match in matches(chain, graph)} == wanted


def test_conditions_on_numbers_narrow_the_candidates() -> None:
    graph, any_of = fusion_graph(inception()), TemplateNode(frozenset({"conv2d"}), None)
    pair = Template("pair", {"a": any_of, "b": any_of}, (("a", "b"),), ())
    assert [each.members for each in find_embeddings([pair], graph)] == [(0, 1), (0, 2), (0, 4), (2, 3), (4, 5)]


def test_readers_of_one_tensor_are_found_once_each_set() -> None:
    node = TemplateNode(frozenset({"conv2d"}), None)
    siblings = Template("siblings", {"a": node, "b": node}, (), (("a", "b"),))
    assert find_embeddings([siblings], fusion_graph(inception())) == [Embedding("siblings", pair) for pair in ((1, 2), (1, 4), (2, 4))]


def test_a_set_that_cannot_run_in_one_piece_is_none() -> None:
    """The first and the last of a chain read one tensor, and the one between them has to run between."""
    region = inception()
    between = replace(region.operations[3], tensors={"x": "a", "y": "b"})
    chained = replace(
        region, operations=(region.operations[0], region.operations[1], between, replace(region.operations[5], tensors={"x": "b", "y": "c"}))
    )
    graph = fusion_graph(chained)
    node = TemplateNode(frozenset(), None)
    ends = Template("ends", {"a": node, "b": node, "c": node}, (("a", "b"),), (("a", "c"),))
    assert all(members in {(0, 1), (1, 2), (2, 3), (0, 1, 2), (1, 2, 3)} for _, members in find_embeddings([ends], graph))
