"""Files of a model: read, written, their weights beside them."""
