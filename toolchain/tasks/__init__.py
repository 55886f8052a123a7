"""The task graph: what a build consists of, what each part depends on, and how it is run again only where something changed."""
