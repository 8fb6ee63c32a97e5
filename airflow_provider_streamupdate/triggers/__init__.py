"""Triggers: the deferred halves of the waiting operators and sensors."""
