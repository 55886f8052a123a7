"""The schedule of a region as a file: what it says, how it is printed and read, and what becomes of it."""
