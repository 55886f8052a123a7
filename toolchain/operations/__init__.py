"""Operations as data: each is described once, in YAML; the graph, the reference and the machine side derive the rest from that text."""
