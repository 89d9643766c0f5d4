"""vidprep: exact container indexes, frame sampling and feeding of video to model training."""

__version__ = "0.1.0"
