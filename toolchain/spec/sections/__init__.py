"""The sections of a machine file, each read into its part of the machine."""
