"""From groups of operations to a machine's program: tiles, order, placement, synchronisation."""
