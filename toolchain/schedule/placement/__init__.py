"""Placement of tensors, on chip and in DRAM."""
