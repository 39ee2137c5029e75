"""Right calls of GANs: what is played for, turns, a training of one step, and what comes of it."""

from bend import FINE, array, choice, count, key, number, one_of, thing
from entry import Entry, made, of

_POINTS = "np.array([[0.5, -1.0], [1.0, 0.25], [-0.5, 0.75]])"
_GAN = "hf.GAN(on_x=swap, widths=(4, 2), latent=2, batch=2)"
_FITTED = f"{_GAN}.fit({_POINTS}, key=key, steps=1)"
_SCORES = "(np.array([0.5, -1.0]), np.array([0.25, 0.75]))"

ENTRIES = [
    *made(
        "LipschitzAlpha",
        f"{{}}.discriminator_loss(*map(jnp.asarray, {_SCORES}))",
        alpha=number("2.0", above=1),
        reverse=one_of("True"),
        fine=number("4.0", least=0),
    ),
    *made("Wasserstein", "{}.penalty(jnp.array([0.5, 2.0]))", fine=number("4.0", least=0)),
    *made("Relativistic", "{}.penalty(jnp.array([0.5, 2.0]))", fine=number("0.5", least=0)),
    *made("Original", "{}.penalty(jnp.array([0.5, 2.0]))", fine=number("0.5", least=0)),
    *made(
        "Turns",
        "hf.flow(game, {}, players, key=key, dt=0.25, steps=1)",
        schemes=thing("{'x': hf.Euler(), 'y': hf.Heun()}", "{'x': 3.0}", "hf.Euler()", late=("{'x': hf.Euler()}",)),
        times=one_of("{'x': 2}", "{'x': 0}", "{'z': 2}", "2", "{'x': 1.5}", "{'x': None}"),
    ),
    Entry("Objective", "hf.gans.Relativistic().name", {}),
    Entry("Generator", f"{_FITTED}.generator.latent", {}),
    Entry("Discriminator", f"{_FITTED}.discriminator.classes", {}),
    of(
        "GAN",
        on_x=one_of("swap", "3.0", "object()", "np.eye(2)", optional=True),
        symmetry=choice('"both"', optional=True),
        objective=one_of('"wasserstein"', '"nonsense"', "3.0", "hf.gans.Relativistic", "object()", optional=True),
        generator=one_of("None", "3.0", '"deep"', "hf.Dense(2, 2)", optional=True),
        discriminator=one_of("None", "3.0", '"deep"', "hf.Dense(2, 2)", optional=True),
        latent=count("2", most=100_000, optional=True),
        widths=one_of("(4, 2)", "()", "3", "(0,)", "(2.5,)", '"wide"', "(-1, 2)", optional=True),
        hidden=one_of("None", "3.0", "group", optional=True),
        batch=count("2", most=100_000),
        turns=count("2", most=100_000, optional=True),
        optimiser=choice('"adam"', optional=True),
        rates=one_of("(0.5, 0.25)", "0.5", "(0.5,)", "(-1.0, 0.5)", "(np.nan, 0.5)", optional=True),
        precision=choice('"double"'),
        same=choice('"parameters"'),
    ),
    Entry(
        "GAN.fit",
        f"{_GAN}.fit({{*}}).sheets",
        {
            "x": array(_POINTS, rows=False),
            "y": one_of("['a', 'b', 'a']", "['a']", "np.array([0.5, np.nan, 1.0])", "object()", "3", optional=True),
            "key": key(),
            "steps": count("1", least=0),
        },
    ),
    Entry("FittedGAN", f"{_FITTED}.steps", {}),
    Entry(
        "FittedGAN.sample",
        f"{_FITTED}.sample({{*}})",
        {"key": key(), "n": count("3", least=0), "labels": one_of("None", "['a']", "3", "object()", optional=True)},
    ),
    Entry("FittedGAN.violation", f"list({_FITTED}.violation({{*}}))", {"key": key()}),
    Entry("FittedGAN.score", f"{_FITTED}.score({{*}})", {"x": array(_POINTS, rows=False, empty=FINE)}),
]
