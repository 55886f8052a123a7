"""Scales of tensors and the integers of operations that follow from them."""
