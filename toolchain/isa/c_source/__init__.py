"""Expressions of the semantics as exact C."""
