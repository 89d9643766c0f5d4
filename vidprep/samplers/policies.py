"""All policies, wherever they live."""

from vidprep.samplers.policy import Policy

__all__ = ["Policy"]
