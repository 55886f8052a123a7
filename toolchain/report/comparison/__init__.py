"""Builds, machines and schedules side by side."""
