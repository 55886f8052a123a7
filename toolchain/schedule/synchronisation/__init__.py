"""Tokens, derived from the locations that instructions read and write."""
