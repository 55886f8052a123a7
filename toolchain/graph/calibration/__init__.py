"""Ranges of tensors, from samples."""
