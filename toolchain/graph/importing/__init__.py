"""From a file to a normal form: checked, functions written out, one operator set, shapes and types known."""
