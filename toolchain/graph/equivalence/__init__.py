"""Proof that two float models compute the same."""
