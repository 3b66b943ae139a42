"""Files of the user's own, in the platform's configuration folder."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from engine.bill.prices import NAME as PRICES
from engine.napkin.library import NAME as NAPKIN

APP_NAME = "llm-inspect"


def config_folder() -> Path:
    """The folder of the user's configuration on this platform."""
    return platformdirs.user_config_path(APP_NAME)


def prices_file() -> Path:
    """The user's own price list."""
    return config_folder() / PRICES


def napkin_file() -> Path:
    """The user's own model shapes and machines."""
    return config_folder() / NAPKIN
