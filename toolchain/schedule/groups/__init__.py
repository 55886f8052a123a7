"""Operations that run over one loop of rows, their intermediates in rings of rows on chip."""
