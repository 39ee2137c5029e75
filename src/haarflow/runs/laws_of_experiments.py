"""The laws of experiments: what can be said of one before it runs. Its claims are judged by `haarflow run`."""

from haarflow.practice.laws import law, require
from haarflow.runs.design import parts
from haarflow.runs.experiment import Experiment
from haarflow.runs.panels import captions


@law(Experiment, 0.0)
def an_experiment_says_its_claim_and_its_source(experiment):
    """The first paragraph of the docstring is the claim, and one that begins with 'Source:' says where it is from."""
    words = experiment.words()
    require(words["claim"], "the docstring does not say what is claimed.")
    require(words["source"], "the docstring has no paragraph that begins with 'Source:'.")
    return 0


@law(Experiment, 0.0)
def every_size_is_made_of_parts(experiment):
    """The tour, the quick and the full size each have a design whose parts have names of their own."""
    kind = type(experiment)
    for size in (kind.tour, kind.quick, kind.full):
        require(parts(size()), f"{size.__name__}() has no parts.")
    return 0


@law(Experiment, 0.0)
def settings_come_back_from_a_record(experiment):
    """The settings written to JSON and read again are the same settings, with every declared fault too."""
    kind = type(experiment)
    for one in (experiment, *(experiment.model_copy(update={"fault": fault}) for fault in kind.faults)):
        again = kind.model_validate_json(one.model_dump_json())
        require(again == one, f"{again!r} was {one!r}.")
    return 0


@law(Experiment, 0.0)
def pictures_are_described_by_the_settings(experiment):
    """Titles and captions name fields and constants that the class has, and no picture goes without a caption."""
    for name, (title, caption) in captions(experiment).items():
        require(title and caption, f"the picture {name} has no caption.")
    return 0


@law(Experiment, 0.0)
def the_cost_is_a_positive_number_of_seconds(experiment):
    """The class constant `seconds`, on which estimates of what a run costs rest."""
    require(experiment.seconds > 0, f"`seconds` is {experiment.seconds}.")
    return 0
