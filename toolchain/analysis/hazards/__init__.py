"""Hazards of a program that its queues allow: races, unwritten reads, stale state."""
