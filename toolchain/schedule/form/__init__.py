"""The schedule of a region as a file: its contents, how it is printed and read, and the plan that it becomes."""
