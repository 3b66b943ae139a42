"""Building a model without memory behind it, to see whether its configuration and weights agree.

transformers fills tensors of the configuration's sizes with random numbers before it looks at the
weights, which can take hours and all memory. Shapes alone cost a tenth of a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.models.checks import ModelError, check_loaded
from engine.models.config_checks import blamed


def configuration(folder: Path, raw: Mapping[str, Any], where: Mapping[str, Any]) -> Any:
    """The configuration of a folder as transformers has it; ``raw`` is what its file says.

    Raises ModelError, which names the field at fault, or whatever transformers raises.
    """
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, **where)
    except Exception as error:
        line = blamed(folder / "config.json", raw, lambda data: AutoConfig.for_model(**data))
        if line is None:
            raise
        raise ModelError(line) from error


def without_weights(config: Any) -> Any:
    """The model of a configuration with shapes and no memory behind them."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def check_built(
    folder: Path,
    label: str,
    raw: Mapping[str, Any],
    config: Any,
    stored: Mapping[str, tuple[int, ...]],
) -> int:
    """Refuse a model that its weights do not fit; ``stored`` are their shapes, by name.

    Returns how many numbers of it are not in the weights by their names. Raises ModelError.
    """
    if raw.get("quantization_config"):
        return 0  # what is stored has other shapes
    from transformers import AutoConfig

    path = folder / "config.json"
    try:
        model = without_weights(config)
    except Exception as error:
        line = blamed(path, raw, lambda data: without_weights(AutoConfig.for_model(**data)))
        if line is None:
            raise
        raise ModelError(line) from error
    made = model.state_dict()
    misfits = [
        (name, stored[name], tuple(tensor.shape))
        for name, tensor in made.items()
        # Some are stored the other way round, which the loading knows.
        if name in stored and math.prod(stored[name]) != tensor.numel()
    ]
    check_loaded({"mismatched_keys": misfits}, label)
    others = [*(made[name] for name in made.keys() - stored.keys()), *model.buffers()]
    return sum(one.numel() for one in others)
