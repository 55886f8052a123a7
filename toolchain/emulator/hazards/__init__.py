"""What is wrong with a program that its queues allow: races, unwritten reads, stale state."""
