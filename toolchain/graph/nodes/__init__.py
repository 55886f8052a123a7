"""Nodes of a model: walked, named in messages, edited."""
