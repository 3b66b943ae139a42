"""The sampler as the rest of the program sees it: settings in, ladders and draws out."""

from engine.sampling.candidates import Candidates, SamplingError
from engine.sampling.ladder import Chain, Ladder, forced
from engine.sampling.presets import DEFAULT_PRESET, PRESETS, Preset
from engine.sampling.settings import Effective, effective
from engine.sampling.spec import SpecError, build, parse_dials, parse_spec, preset_of

__all__ = [
    "DEFAULT_PRESET",
    "PRESETS",
    "Candidates",
    "Chain",
    "Effective",
    "Ladder",
    "Preset",
    "SamplingError",
    "SpecError",
    "build",
    "effective",
    "forced",
    "parse_dials",
    "parse_spec",
    "preset_of",
]
