"""Static analysis of programs: footprints, queues and tokens, hazards."""
