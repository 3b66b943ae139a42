"""The shape of the distribution at the cursor."""
