"""What must hold between the sections of a machine file."""
