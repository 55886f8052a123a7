"""Tokens, derived from what instructions read and write."""
