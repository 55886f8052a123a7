"""The integer network: a machine's numbers, functions in standard operators, and the calls of them."""
