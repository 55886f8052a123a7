"""Embeddings with prices, and covers of the whole region."""

from tests.schedule.search.made_graphs import space_on
from toolchain.schedule.search.listing import list_embeddings


def test_a_listing_holds_every_embedding_and_cover() -> None:
    found = list_embeddings(space_on("dpuv3"), "estimate")
    rows = {(row.template, row.operations): row for row in found.embeddings}
    assert rows["pair", ("narrow3", "three")].saved_bytes == 2 * 4 * 32 * 14 * 14
    assert ("four_readers", ("one", "narrow3", "narrow5", "pool")) in rows
    assert rows["pair", ("narrow3", "three")].together <= rows["pair", ("narrow3", "three")].apart
    assert found.covers["optimal"].cycles <= found.covers["paths"].cycles <= found.covers["greedy"].cycles <= found.apart
