"""A price list: what a million tokens of each kind cost, from a file that the user edits."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path

from engine.plain_files import read_text, reason

NAME = "prices.toml"
"""The user's own file, in the configuration folder."""
_LARGEST = 1 << 16
_LONGEST_NAME = 60
_HIGHEST = 1e9


class PriceError(ValueError):
    """A price list that cannot be used; one line names the file and the fault."""


class Kind(StrEnum):
    """Kind of token on a bill."""

    PROMPT = "prompt"
    """Of the prompt, and computed."""
    CACHED = "cached"
    """Of the prompt, its K and V taken from the cache."""
    OUTPUT = "output"
    THINKING = "thinking"
    """Of the output, between the thinking tags, tags included."""
    DISCARDED = "discarded"
    """Drafted, verified or not, and thrown away."""


@dataclass(frozen=True)
class PriceList:
    """Prices for a million tokens, by kind; a kind that is not there has none."""

    name: str = ""
    currency: str = ""
    per_million: Mapping[Kind, float] = field(default_factory=dict)

    @classmethod
    def load(cls, own: Path | None = None) -> PriceList:
        """The user's own list, or the example where that file does not exist.

        Raises PriceError, which names the file.
        """
        if own is None:
            return example()
        try:
            return parsed(read_text(own, _LARGEST))
        except (FileNotFoundError, NotADirectoryError):
            return example()
        except RecursionError:
            raise PriceError(f"{own}: it is nested too deeply") from None
        except (OSError, ValueError) as error:
            raise PriceError(f"{own}: {reason(error)}") from None

    def price(self, kind: Kind, tokens: int) -> float | None:
        """The price of so many tokens; None for a kind that has none."""
        each = self.per_million.get(kind)
        return None if each is None else tokens * each / 1e6


@cache
def example() -> PriceList:
    """The list that ships: round numbers that are nobody's."""
    return parsed(files("engine.bill").joinpath(NAME).read_text("utf-8"))


def parsed(text: str) -> PriceList:
    """The list in TOML text. Raises PriceError, and ValueError for what is no TOML."""
    data = tomllib.loads(text)
    unknown = sorted(set(data) - {"name", "currency", "per_million"})
    if unknown:
        raise PriceError(f"unknown key {unknown[0]!r:.60}; known: name, currency, [per_million]")
    words = [data.get(name, "") for name in ("name", "currency")]
    if not all(isinstance(one, str) and len(one) <= _LONGEST_NAME for one in words):
        raise PriceError(f"name and currency must be texts of at most {_LONGEST_NAME} characters")
    table = data.get("per_million", {})
    if not isinstance(table, dict):
        raise PriceError("per_million must be a table: [per_million]")
    return PriceList(words[0], words[1], {_kind(name): _price(name, table[name]) for name in table})


def _kind(name: str) -> Kind:
    if name not in tuple(Kind):
        raise PriceError(f"[per_million] unknown kind {name!r:.60}; known: {', '.join(Kind)}")
    return Kind(name)


def _price(name: str, value: object) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not math.isfinite(float(str(value))) or not 0 <= float(str(value)) <= _HIGHEST:
        raise PriceError(f"[per_million] {name} must be a number from 0 to {_HIGHEST:,.0f}")
    return float(str(value))
