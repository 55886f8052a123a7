"""Times that a device measured, beside those of the cycle model."""
