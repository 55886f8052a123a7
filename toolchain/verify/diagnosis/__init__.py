"""Diagnosis of a difference: when each tensor is complete, where it is read, and which instruction wrote the element."""
