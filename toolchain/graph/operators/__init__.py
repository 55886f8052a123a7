"""Facts of operators that passes and costs ask for: channels, windows, repeats, work."""
