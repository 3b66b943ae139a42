"""Draft sources: what proposes the tokens that a target model then verifies in one pass."""
