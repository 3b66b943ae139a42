"""The bill of the branch up to the cursor."""
