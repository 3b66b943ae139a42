"""The bill of a run: tokens by kind with time, bytes and price, and why they cost what they do."""
