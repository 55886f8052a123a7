"""What a person reads: manuals, summaries, timelines."""
