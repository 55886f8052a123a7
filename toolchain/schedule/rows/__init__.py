"""Loops over rows: the rows that a slab makes and reads, the order of the slabs of several operations, and how long rings of rows must be."""
