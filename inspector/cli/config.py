"""The configuration file: defaults for options, and the user's own keys."""

from __future__ import annotations

import difflib
import reprlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from engine.plain_files import read_text, reason
from engine.sampling.stages import DIALS
from inspector.cli import option_values
from inspector.state.own_files import APP_NAME, config_folder

_LARGEST = 1 << 20
"""Bytes of a configuration file."""

_OPTIONS: Mapping[str, tuple[type, ...]] = {
    "engine": (str,),
    "model": (str,),
    "device": (str,),
    "dtype": (str,),
    "threads": (int,),
    "cache": (bool,),
    "block_size": (int,),
    "kv_budget": (str, int),
    "kv_dtype": (str,),
    "top": (int,),
    "context": (int,),
    "slots": (int,),
    "gpu_layers": (int,),
    "cache_type": (str,),
    "url": (str,),
    "api_key_env": (str,),
    "timeout": (int,),
    "tokenizer": (str,),
    "preset": (str,),
    "seed": (int,),
    "max_tokens": (int,),
    "prefill_chunk": (int,),
    "draft": (str,),
    "draft_tokens": (int, str),
    "accept": (str,),
    "think_tags": (str,),
    "think_budget": (int,),
    "theme": (str,),
    "layout": (str,),
    "autosave": (bool,),
}


class ConfigError(ValueError):
    """A configuration file that cannot be used; one line names the file and the fault."""


def config_file() -> Path:
    """The path of the user's configuration on this platform."""
    return config_folder() / "config.toml"


def log_file() -> Path:
    """The path of the engine process's log."""
    return platformdirs.user_log_path(APP_NAME) / "engine.log"


@dataclass(frozen=True)
class Config:
    """The configuration file: options, sampler dials, and keys (binding id -> keys)."""

    options: Mapping[str, Any] = field(default_factory=dict)
    dials: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    """The file, or where it would be; None for none."""

    @classmethod
    def load(cls, path: Path | None = None) -> Config:
        """Read ``path``, or the user's own file; an empty Config where that does not exist.

        Raises ConfigError for a named file that is missing, and for any fault in a file.
        """
        source = path or config_file()
        try:
            data = tomllib.loads(read_text(source, _LARGEST))
        except (FileNotFoundError, NotADirectoryError):
            if path is not None:
                raise ConfigError(f"no configuration file at {path}") from None
            return cls(path=source)
        except RecursionError:
            raise ConfigError(f"{source}: it is nested too deeply") from None
        except (OSError, ValueError) as error:  # TOML's own errors are ValueErrors too
            raise ConfigError(f"{source}: {reason(error)}") from None
        try:
            return replace(cls._checked(data), path=source)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None

    @classmethod
    def _checked(cls, data: dict[str, Any]) -> Config:
        sampler = _table(data, "sampler")
        keys, layouts = _table(data, "keys"), _table(data, "layouts")
        for name, value in data.items():
            if name not in _OPTIONS:
                known = [*_OPTIONS, "sampler", "keys", "layouts"]
                raise ConfigError(f"unknown option {name!r}{_near(name, known)}")
            if type(value) not in _OPTIONS[name]:
                kinds = " or ".join(kind.__name__ for kind in _OPTIONS[name])
                raise ConfigError(f"{name} must be {kinds}, not {reprlib.repr(value)}")
            try:
                option_values.check(name, value)
            except ValueError as error:
                raise ConfigError(f"{name} {error}") from None
        for name, value in sampler.items():
            if name not in DIALS:
                raise ConfigError(f"unknown dial {name!r} in [sampler]{_near(name, DIALS)}")
            try:
                sampler[name] = DIALS[name][1].parse(str(value))
            except ValueError as error:
                raise ConfigError(f"[sampler] {error}") from None
        for name, value in keys.items():
            if not isinstance(value, str):
                raise ConfigError(f"[keys] {name} must be keys in writing, such as 'n,right'")
        for name, value in layouts.items():
            if not isinstance(value, str):
                raise ConfigError(f"[layouts] {name} must be a text, such as 'ladder | kv'")
        return cls(data, sampler, keys, layouts)

    def pick(self, name: str, flag: Any, default: Any = None) -> Any:
        """The flag where it was given, else what the file says, else ``default``."""
        return flag if flag is not None else self.options.get(name, default)


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    table = data.pop(name, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{name} must be a table: [{name}]")
    return table


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
