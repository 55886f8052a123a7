"""Engines that run a program bit-exactly."""
