"""Checks over an index or files."""
