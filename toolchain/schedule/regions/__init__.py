"""Offloaded regions as the machine side sees them."""
