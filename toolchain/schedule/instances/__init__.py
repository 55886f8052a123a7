"""Coarse sub-graphs of a region and their instances: GraphTurbo (Zhao et al., OSDI 2023), section 3, as pure functions of shapes and memories."""
