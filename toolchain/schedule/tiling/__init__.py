"""Tile sizes, the order of steps, and their slots."""
