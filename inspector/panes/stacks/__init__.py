"""The same logits in several stacks."""
