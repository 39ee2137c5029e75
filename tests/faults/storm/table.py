"""All entries, by room; and whether they are all: every public name, and every argument of its signature."""

import inspect

import entries_algebra
import entries_audit
import entries_check
import entries_depth
import entries_divergences
import entries_dynamics
import entries_estimators
import entries_flow
import entries_function_spaces
import entries_games
import entries_gans
import entries_lab
import entries_laws
import entries_learning
import entries_margins
import entries_measures
import entries_models
import entries_practice
import entries_relu_program
import entries_sets
from entry import ADDRESS, Entry

from haarflow.contents import public

ROOMS: dict[str, list[Entry]] = {
    "algebra": entries_algebra.ENTRIES,
    "measures": entries_measures.ENTRIES,
    "divergences": entries_divergences.ENTRIES,
    "models": entries_models.ENTRIES,
    "depth": entries_depth.ENTRIES,
    "function spaces": entries_function_spaces.ENTRIES,
    "sets": entries_sets.ENTRIES,
    "learning": entries_learning.ENTRIES,
    "flow": entries_flow.ENTRIES,
    "dynamics": entries_dynamics.ENTRIES,
    "games": entries_games.ENTRIES,
    "gans": entries_gans.ENTRIES,
    "practice": entries_practice.ENTRIES,
    "estimators": entries_estimators.ENTRIES,
    "check": entries_check.ENTRIES,
    "laws": entries_laws.ENTRIES,
    "relu program": entries_relu_program.ENTRIES,
    "margins": entries_margins.ENTRIES,
    "audit": entries_audit.ENTRIES,
    "lab": entries_lab.ENTRIES,
}

ENTRIES = [entry for entries in ROOMS.values() for entry in entries]
ROOM_OF = {entry.name: room for room, entries in ROOMS.items() for entry in entries}

RECORDS = {
    "Trajectory",
    "GridPath",
    "Gibbs",
    "Optimum",
    "KernelFit",
    "FittedGAN",
    "FeatureFit",
    "ReluOptimum",
    "MaxMargin",
    "EquivarianceError",
    "Bounds",
    "Divergence",
    "Estimate",
    "NeuralDivergence",
    "NikaidoIsoda",
    "Decision",
    "Discovery",
    "Findings",
    "SubgroupLattice",
    "SymmetryCheck",
    "SymmetrySearch",
    "Sharing",
    "SignedPermutation",
    "Diverged",
    "Refusal",
}
"""What the library hands out and nobody else makes: met through the call that makes it, and not bent."""


def gaps() -> list[str]:
    """Public names without an entry, and arguments that no entry gives."""
    found, things = [], public()
    for name, address in ADDRESS.items():
        mine = [entry for entry in ENTRIES if entry.name.partition(".")[0] == name]
        if not mine:
            found.append(f"{name} has no entry")
        kind = things[address]
        if name in RECORDS or inspect.isabstract(kind):
            continue
        given = {argument for entry in mine if entry.name == name for argument in entry.args}
        found += [f"{name} has no entry with {a}" for a in inspect.signature(kind).parameters if a not in given]
    return found
