"""Ranges of tensors, from samples; their scales; and the integers of operations that follow from them."""
