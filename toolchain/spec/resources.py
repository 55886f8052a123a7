"""Files of the package that the loaders of machines and models read."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SCHEMA = PACKAGE / "schemas" / "target.schema.json"
MODEL_SCHEMA = PACKAGE / "schemas" / "model.schema.json"
