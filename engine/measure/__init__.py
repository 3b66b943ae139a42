"""Measurements beside a run: ceilings, drift, what the cache is worth, turns with a rival."""
