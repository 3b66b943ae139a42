"""The run's tree."""
