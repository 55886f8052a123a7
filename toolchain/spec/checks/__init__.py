"""Checks between the sections of a machine file."""
