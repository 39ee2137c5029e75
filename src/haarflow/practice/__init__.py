"""What people call: the four schemes side by side, checks of units and of the laws, and the symmetry in data."""

from haarflow.practice.audit import EquivarianceError as EquivarianceError
from haarflow.practice.compare import four_schemes as four_schemes
from haarflow.practice.discover import Discovery as Discovery
from haarflow.practice.laws import Findings as Findings
from haarflow.practice.laws import check_laws as check_laws
from haarflow.practice.parameter_sharing import Sharing as Sharing
from haarflow.practice.parameter_sharing import SignedPermutation as SignedPermutation
from haarflow.practice.parameter_sharing import sharing as sharing
from haarflow.practice.parameter_sharing import symmetries as symmetries
from haarflow.practice.subgroups import SubgroupLattice as SubgroupLattice
from haarflow.practice.symmetry_check import SymmetryCheck as SymmetryCheck
from haarflow.practice.symmetry_search import SymmetrySearch as SymmetrySearch
from haarflow.practice.symmetry_search import search_symmetry as search_symmetry
from haarflow.practice.testing import check_identities as check_identities
from haarflow.practice.training import check_training as check_training
