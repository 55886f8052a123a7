"""Explorations: many points of a machine's parameters, each compiled, verified and timed, and what is best among them."""
