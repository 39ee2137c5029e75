"""What an output costs against a label, and how well a network does on a sample."""

from haarflow.learning.losses import Huber as Huber
from haarflow.learning.losses import Loss as Loss
from haarflow.learning.losses import PseudoHuber as PseudoHuber
from haarflow.learning.metrics import Metric as Metric
from haarflow.learning.metrics import Score as Score
