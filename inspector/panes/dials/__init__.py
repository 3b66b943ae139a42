"""The sampler's dials."""
