"""Texts for a person: manuals, summaries, timelines."""
