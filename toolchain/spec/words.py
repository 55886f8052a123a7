"""Words of the expression and semantics languages, which no name of a machine may take."""

from toolchain.spec.evaluate import FUNCTIONS

BUILT_IN = ("dot", "sum", "reduce_min", "reduce_max", "wrap", "saturate", "round_half_up", "round_half_even", "round_half_away", "round_floor")
"""Functions of the semantics language beside FUNCTIONS."""

RESERVED = frozenset({*FUNCTIONS, *BUILT_IN, "range", "fields", "reads", "writes"})
