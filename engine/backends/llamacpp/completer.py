"""The completer of a llama.cpp that runs in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.backends.base import BackendError
from engine.backends.http.llama_server import answer_of, batch_request, listed, listed_batch
from engine.backends.llamacpp.answers import continued_of, request
from engine.backends.llamacpp.dials import sampler_request
from engine.backends.llamacpp.hosted import Hosted
from engine.backends.llamacpp.options import Options
from engine.backends.top_n.completer import Abilities, Answer, Batch, Continued
from engine.models.checks import ModelError
from engine.timing import now_ms


class HostedCompleter:
    """Asks the hosted server for distributions, one position a request.

    llama.cpp cannot give a context more room: it is opened again with more, on the same file.
    """

    def __init__(
        self,
        hosted: Hosted,
        reopen: Callable[[int], Hosted],
        check_room: Callable[[int], None],
        options: Options,
        abilities: Abilities,
        vocab_size: int,
    ) -> None:
        """``reopen`` opens the model with that many positions, for which ``check_room`` finds
        memory; both raise ModelError."""
        self._hosted = hosted
        self._reopen = reopen
        self._check_room = check_room
        self._abilities = abilities
        self._vocab_size = vocab_size
        self.room, self.spare = options.room, options.spare
        # Each slot's text may be as long as the model reads.
        grows = options.room < options.most
        self.most = options.most * (options.slots if grows else 1)

    @property
    def abilities(self) -> Abilities:
        return self._abilities

    def next_token(self, ids: Sequence[int], top: int, *, slot: int, reuse: bool) -> Answer:
        """The ``top`` likeliest tokens behind ``ids``; see ``Completer``."""
        return self._ask(request(ids, top, slot=slot, reuse=reuse), top).answers[0]

    def continued(self, ids: Sequence[int], top: int, count: int, *, slot: int) -> Continued:
        """Up to ``count`` rows of one request; see ``Continuing``."""
        return self._ask(request(ids, top, slot=slot, reuse=True, count=count), top)

    def batch(self, texts: Sequence[Sequence[int]], top: int) -> Batch:
        """The rows of several texts; see ``Batching``."""
        body = self._hosted.complete_several(batch_request(texts, top))
        started = now_ms()
        found = listed_batch(body, len(texts), self._abilities.slots)
        answers = tuple(answer_of(one, top, self._vocab_size) for one, _ in found)
        parse_ms = (now_ms() - started) / len(answers)
        timed = (replace(one, times=replace(one.times, parse_ms=parse_ms)) for one in answers)
        return Batch(tuple(timed), tuple(slot for _, slot in found))

    def _ask(self, asked: Mapping[str, Any], top: int) -> Continued:
        data = self._hosted.complete(asked)
        started = now_ms()
        found = continued_of(json.loads(data), top, self._vocab_size)
        parse_ms = (now_ms() - started) / len(found.answers)
        answers = tuple(
            replace(one, times=replace(one.times, parse_ms=parse_ms)) for one in found.answers
        )
        return replace(found, answers=answers)

    def positions(self, ids: Sequence[int], start: int, top: int, *, slot: int) -> Answer:
        raise BackendError("llama.cpp tells no log-probabilities of a prompt's own positions")

    def sampled(
        self, ids: Sequence[int], dials: Mapping[str, Any], count: int
    ) -> Mapping[int, float]:
        """See ``OwnSampler``."""
        asked = request(ids, count, slot=None, reuse=True)
        more = {**sampler_request(dials), "post_sampling_probs": True}
        found = listed(json.loads(self._hosted.complete({**asked, **more})), "prob")
        pairs = zip(found.ids, found.values, strict=True)
        return {one: value for one, value in pairs if value is not None and value > 0.0}

    def tokenize(self, text: str, special: bool) -> list[int]:
        """See ``Hosted``."""
        return self._hosted.tokenize(text, special=special)

    def grow(self, positions: int) -> None:
        """See ``Growing``. The model is in memory once at a time."""
        try:
            self._check_room(positions)
            self._hosted.close()
            self._hosted, self.room = self._reopen(positions), positions
        except ModelError as error:
            raise BackendError(str(error)) from None

    def close(self) -> None:
        self._hosted.close()
