"""What instructions read and write, found without tensor data."""
