"""The machine description: YAML with positions, validated and elaborated into a frozen machine."""
