"""The user's own price list, for commands without a screen."""

from __future__ import annotations

from engine.bill.prices import PriceError, PriceList
from inspector.cli.options import UsageError
from inspector.state.own_files import prices_file


def own_prices() -> PriceList:
    """The list in the configuration folder, or the example. Raises UsageError for a bad file."""
    try:
        return PriceList.load(prices_file())
    except PriceError as error:
        raise UsageError(str(error)) from None
