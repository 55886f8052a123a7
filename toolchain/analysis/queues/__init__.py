"""In-order queues that meet at counters: order, deadlock, vector clocks."""
