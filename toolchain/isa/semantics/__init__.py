"""The semantics language: read from text, resolved into a tree, held against its rules."""
