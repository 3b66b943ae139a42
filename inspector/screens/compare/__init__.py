"""The compare screen: columns side by side, why they part, and their figures."""
