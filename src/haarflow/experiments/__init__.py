"""One file per claim, found by itself; and the kit to write one of your own, as docs/extend.md does.

    from haarflow.experiments import Experiment, Sizes, below, named, over, panel

`Experiment` is the class, and the types of its fields are `Count`, `Positive`, `NonNegative`, `Sizes`, `Horizon`,
`Step` and `Steps`. A design is made of `over`, `blocks` and `once`; its methods draw by `stream`, tell how far they are
by `tell` and return `named` arrays. `power_law` fits; `below`, `above`, `between`, `at_least`, `within` and `holds`
make claims; `panel` and `film` mark pictures, for which `curves`, `power_laws`, `slopes`, `boxes`, `legend` and
`colour` draw.
"""

from haarflow.runs.experiment import Experiment as Experiment
from haarflow.runs.experiment import above as above
from haarflow.runs.experiment import at_least as at_least
from haarflow.runs.experiment import below as below
from haarflow.runs.experiment import between as between
from haarflow.runs.experiment import blocks as blocks
from haarflow.runs.experiment import film as film
from haarflow.runs.experiment import holds as holds
from haarflow.runs.experiment import named as named
from haarflow.runs.experiment import once as once
from haarflow.runs.experiment import over as over
from haarflow.runs.experiment import panel as panel
from haarflow.runs.experiment import power_law as power_law
from haarflow.runs.experiment import stream as stream
from haarflow.runs.experiment import tell as tell
from haarflow.runs.experiment import within as within
from haarflow.runs.sizes import Count as Count
from haarflow.runs.sizes import Horizon as Horizon
from haarflow.runs.sizes import NonNegative as NonNegative
from haarflow.runs.sizes import Positive as Positive
from haarflow.runs.sizes import Sizes as Sizes
from haarflow.runs.sizes import Step as Step
from haarflow.runs.sizes import Steps as Steps
from haarflow.runs.style import boxes as boxes
from haarflow.runs.style import colour as colour
from haarflow.runs.style import curves as curves
from haarflow.runs.style import legend as legend
from haarflow.runs.style import power_laws as power_laws
from haarflow.runs.style import slopes as slopes
