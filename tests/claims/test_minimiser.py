"""The optimality condition holds at the settled minimiser, and is seen to fail on the grid's own atoms."""

import jax

from haarflow.experiments.minimiser import Minimiser


def test_the_claims_hold_draw_themselves_and_see_atoms_left_on_the_grid(rehearse):
    rehearsal = rehearse(Minimiser, jax.random.key(1), cells=31)
    assert not rehearsal.lost()
    assert rehearsal.shown()
    lost = rehearsal.lost("left on the grid", ("minimiser",))
    assert lost
    assert all(claim.startswith("minimiser off the grid") for claim in lost)
