"""Text drawing: numbers, bars, blocks and charts as lines of styled text."""
