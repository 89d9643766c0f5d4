"""Policies: which frames of a video make a clip. Pure numpy; no file, no DALI, no torch."""
