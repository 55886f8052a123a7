"""Spelling hints."""

from toolchain.spec.suggest import closest, nearest


def test_nearest() -> None:
    assert nearest("laod", ["load", "store"]) == "did you mean 'load'?"
    assert closest("LOAD", ["load", "store"]) == "load"
    assert nearest("zzz", ["load", "store"]) == nearest("x", []) == ""


def test_order_of_the_known_words_does_not_matter() -> None:
    words = ["rows_a", "rows_b", "rows_c"]
    assert closest("rows", words) == closest("rows", list(reversed(words)))
