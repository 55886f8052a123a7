"""Engines that run a program bit-exactly, and the checks that come before running."""
