"""Hold the preset ``llamacpp`` against llama.cpp's own sampler, on a real model.

    python bench/check_samplers.py [--model MODEL.gguf] [--url http://host:port]

The settings are those that bench/record_llamacpp.py records, on its five prompts: by default on the
default model's own file in this process, else on a file or a running llama-server. Exit code 1
where a setting keeps another token, or another probability. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.backends import open_backend
from engine.backends.base import BackendError
from engine.measure.own_sampler import check_sampler
from engine.run.stepper import Stepper
from tests.recordings import cases

RECORDING = "llamacpp.npz"


def main() -> int:
    """Check every setting on every prompt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--url")
    given = parser.parse_args()
    recorded = list(cases(RECORDING))
    settings = list({json.dumps(case.dials): case.dials for case in recorded}.values())
    prompts = list(dict.fromkeys(case.prompt_ids for case in recorded))
    backend = open_backend("llamacpp", {"model": given.model, "url": given.url})
    checked, near_ties, largest, wrong, left = 0, 0, 0.0, [], {}
    for prompt in prompts:
        stepper = Stepper(backend)
        stepper.submit_ids(prompt)
        node = stepper.step().node
        for dials in settings:
            try:
                found = check_sampler(stepper, node, dials)
            except BackendError as error:
                left[json.dumps(dials)] = str(error)
                continue
            checked += 1
            largest = max(largest, found.largest)
            near_tie = found.parted == 1 and found.largest <= found.near
            near_ties += near_tie
            if not found.same and not near_tie:
                wrong.append((dials, found.parted, found.largest))
                print(f"{dials} behind {prompt[:4]}: parts on {found.parted}, {found.largest:.2g}")
    for written, why in left.items():
        print(f"{written}: not checked: {why}")
    print(
        f"{checked} checks, {len(wrong)} differ; {near_ties} keep one token more or less, so near "
        f"a border that rounding decides; largest difference of a probability {largest:.2g}"
    )
    figures = {
        "model": backend.facts.name,
        "versions": backend.facts.versions,
        "settings": len(settings) - len(left),
        "prompts": len(prompts),
        "checks": checked,
        "wrong": len(wrong),
        "near_ties": near_ties,
        "largest_difference": largest,
    }
    backend.close()
    print(json.dumps(figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
