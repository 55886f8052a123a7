"""`doit build target=vta model=digits`; `tilewright build target=vta model=digits` does the same in any folder."""

from toolchain.tasks.doit_tasks import CONFIG, task_model

__all__ = ["DOIT_CONFIG", "task_model"]
DOIT_CONFIG = {**CONFIG}
