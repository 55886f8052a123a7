"""Files of the package that the machine loader reads."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SCHEMA = PACKAGE / "schemas" / "target.schema.json"
