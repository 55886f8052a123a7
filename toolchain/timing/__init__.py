"""Event simulation and closed-form cost of a program; needs no tensor data."""
