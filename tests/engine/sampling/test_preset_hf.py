"""``--preset hf`` through the whole engine equals what ``generate`` itself samples from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.run.stepper import Stepper
from engine.sampling.chain import effective
from engine.sampling.stages import StageContext

pytestmark = pytest.mark.model

STEPS = 64
PROMPT = "Once upon a time there was a"


@pytest.mark.parametrize(
    "dials",
    [
        {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "repetition_penalty": 1.2},
        {"temperature": 1.3, "top_k": 0, "min_p": 0.05},
    ],
)
def test_processed_scores_equal_generate_s(default_model_dir: Path, dials: dict[str, Any]) -> None:
    """Each of 64 sampled steps: equal scores within float32 rounding, kept sets equal exactly."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engine.backends.hf.backend import HFBackend

    tokenizer = AutoTokenizer.from_pretrained(default_model_dir)
    model = AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.float32)
    given = tokenizer(PROMPT, return_tensors="pt")
    torch.manual_seed(7)
    output = model.generate(
        **given,
        **dials,
        do_sample=True,
        max_new_tokens=STEPS,
        eos_token_id=-1,
        output_scores=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = output.sequences[0, given["input_ids"].shape[1] :].tolist()
    assert len(tokens) == STEPS

    settings = effective("hf", dials)
    stepper = Stepper(HFBackend(model, tokenizer), settings, max_tokens=STEPS)
    stepper.submit(PROMPT)
    prompt_ids = tuple(given["input_ids"][0].tolist())
    for count, token_id in enumerate(tokens):
        record = stepper.step(force=token_id)
        raw = stepper.dense(record.node)
        theirs = output.scores[count][0].float().numpy()
        # Our own pass gives the logits that generate saw ...
        seen = output.logits[count][0].float().numpy()
        assert raw.shape == seen.shape
        assert np.all(np.abs(raw.astype(float) - seen) <= 2e-3)
        # ... and from the very same logits the chain gives the very same scores.
        context = StageContext(prompt_ids, tuple(tokens[:count]))
        ladder = settings.chain.run(seen, context)
        kept = np.flatnonzero(np.isfinite(theirs))
        assert ladder.final.ids.tolist() == kept.tolist()
        wanted = theirs[kept].astype(float)
        assert np.all(np.abs(ladder.final.logits - wanted) <= 1e-6 * np.abs(wanted))
        assert record.stages[-1].survivors == pytest.approx(len(kept), abs=2)
