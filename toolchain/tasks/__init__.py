"""The task graph: the stages of a build, their dependences, and a run of those alone for which something changed."""
