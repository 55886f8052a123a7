"""Operations that share one loop over tiles: each tile passes from one to the next where it stands on chip."""
