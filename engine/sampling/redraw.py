"""A speculative round's token from another p: the same draft with its q, and the round's numbers.

What another chain would have made of the draft itself is not asked: the draft's own logits are in
no record, and by the rule any q will do that the draft was really drawn from.
"""

from __future__ import annotations

from engine.records.partial import ends
from engine.records.round import Accept, Drafted
from engine.records.step import Draw, DrawnOn, How
from engine.sampling.candidates import SamplingError
from engine.sampling.draw import Purpose, draw, uniform
from engine.sampling.ladder import Chain, Ladder
from engine.sampling.partial import Partial
from engine.sampling.stages import StageContext
from engine.sampling.verification import Probs, accepts, pick, residual, typical_limit


def redraw(
    rule: Accept, drafted: Drafted | None, chain: Chain, ladder: Ladder, context: StageContext
) -> Draw:
    """The token at a position of a round by ``rule``; ``drafted`` is None where it is the bonus.

    Raises SamplingError where that takes more of q, or of p, than is known.
    """
    if chain.greedy or rule is Accept.MATCH:
        # p is all on one token, or the target draws as ever and the draft is held against that.
        return chain.choose(ladder, context)

    def number(purpose: Purpose) -> float:
        return uniform(context.seed, context.position, purpose)

    final = ladder.final
    if drafted is None:
        return draw(final, number(Purpose.BONUS))
    token_id = drafted.token.id
    if rule is Accept.TYPICAL:
        if isinstance(final, Partial):
            raise final.missing("whether the draft is plausible depends on them")
        if final.prob(token_id) > typical_limit(final.entropy):
            u = drafted.draft_u
            how = How.GREEDY if u is None else How.SAMPLED
            return Draw(token_id, how, u, 0.0, 1.0, DrawnOn.DRAFT)
        return draw(final, number(Purpose.RESIDUAL))
    u = number(Purpose.ACCEPT)
    low, high = ends(final.prob(token_id))
    if accepts(low, drafted.q, u):
        return Draw(token_id, How.SAMPLED, u, 0.0, min(1.0, low / drafted.q), DrawnOn.VERDICT)
    if isinstance(final, Partial):
        told = "the draft may be rejected" if accepts(high, drafted.q, u) else "it is rejected"
        raise final.missing(f"{told}: the token then depends on them")
    if drafted.q < 1.0:
        raise SamplingError(
            f"the draft is rejected at u {u:.5f} (min(1, p/q) {low / drafted.q:.5f}); the token "
            "then drawn depends on all of q, which no record holds"
        )
    _, after = residual(Probs(final.ids, final.probs), Probs.one(token_id))
    u = number(Purpose.RESIDUAL)
    found, start, end = pick(after, u)
    return Draw(int(found), How.SAMPLED, u, float(start), float(end), DrawnOn.RESIDUAL)
