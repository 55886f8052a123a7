"""Operations that run over one loop of rows: which neighbours, with which tensors in rings of rows, and where those stand."""
