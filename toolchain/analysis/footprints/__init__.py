"""Footprints in generated C, the same as those of toolchain/isa/footprint."""
