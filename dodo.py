"""`doit build target=vta model=digits`; `tilewright build target=vta model=digits` does the same in any folder."""

from toolchain.tasks.doit_tasks import task_model
from toolchain.tasks.reporter import CONFIG

__all__ = ["DOIT_CONFIG", "task_model"]
DOIT_CONFIG = {**CONFIG}
