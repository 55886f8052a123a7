"""What programs do without being run: footprints, queues and tokens, hazards."""
