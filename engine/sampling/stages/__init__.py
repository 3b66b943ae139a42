"""The stages, by family. Importing the package fills the registry ``STAGES``."""

from engine.sampling.stages.base import (
    DIALS,
    STAGES,
    Dial,
    DialScale,
    Figure,
    Locality,
    Parameters,
    Role,
    Stage,
    StageContext,
    Value,
    default_of,
    spelled,
    stage,
    stage_of,
    with_shared_dials,
)
from engine.sampling.stages.bias import (
    Allowed,
    BadWords,
    LogitBias,
    MinNewTokens,
    NoRepeatNGram,
    Over,
    Suppress,
)
from engine.sampling.stages.dry import Dry
from engine.sampling.stages.grammar import Grammar
from engine.sampling.stages.mirostat import Mirostat
from engine.sampling.stages.penalties import Penalties
from engine.sampling.stages.processor import Processor, load_processor
from engine.sampling.stages.selective import Typical, Xtc
from engine.sampling.stages.shaping import Temperature
from engine.sampling.stages.truncation import (
    Border,
    Epsilon,
    Eta,
    MinP,
    Scale,
    Ties,
    TopH,
    TopK,
    TopNSigma,
    TopP,
)

__all__ = [
    "DIALS",
    "STAGES",
    "Allowed",
    "BadWords",
    "Border",
    "Dial",
    "DialScale",
    "Dry",
    "Epsilon",
    "Eta",
    "Figure",
    "Grammar",
    "Locality",
    "LogitBias",
    "MinNewTokens",
    "MinP",
    "Mirostat",
    "NoRepeatNGram",
    "Over",
    "Parameters",
    "Penalties",
    "Processor",
    "Role",
    "Scale",
    "Stage",
    "StageContext",
    "Suppress",
    "Temperature",
    "Ties",
    "TopH",
    "TopK",
    "TopNSigma",
    "TopP",
    "Typical",
    "Value",
    "Xtc",
    "default_of",
    "load_processor",
    "spelled",
    "stage",
    "stage_of",
    "with_shared_dials",
]
