"""A build as a whole on one page: machine, graph, schedule, memory, time and figures, linked by operation."""
