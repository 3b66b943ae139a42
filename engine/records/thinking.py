"""Tags that a model's thinking stands between, and how many tokens it may have."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_TAG = 60
"""Characters of a tag."""


@dataclass(frozen=True, slots=True)
class ThinkingSettings:
    """The tags in use; "" for none. ``source`` says whose they are.

    After ``budget`` tokens between the tags the closing one is forced; None for no budget.
    """

    opens: str = ""
    closes: str = ""
    source: str = ""
    budget: int | None = None

    @property
    def open_bytes(self) -> bytes:
        """The opening tag as the tokens of an output spell it."""
        return self.opens.encode("utf-8", "surrogatepass")

    @property
    def close_bytes(self) -> bytes:
        """The closing tag."""
        return self.closes.encode("utf-8", "surrogatepass")

    @property
    def known(self) -> bool:
        """True if thinking can be told from the answer."""
        return bool(self.opens and self.closes)
