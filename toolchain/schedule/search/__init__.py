"""Searches for a region's schedule: drafts, their cost, and the policies that propose them."""
