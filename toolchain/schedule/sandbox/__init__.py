"""Templates that users bring, run without files outside, chance, or work without end."""
