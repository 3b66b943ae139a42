"""The sampler ladder."""
