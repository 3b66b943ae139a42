"""Ready requests side by side: where the time and the bill of each go."""
