"""Code generators: from a region to the bytes that a device loads."""
