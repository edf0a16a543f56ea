"""Turn-level credit assignment and reward shaping on plain arrays.

`Turns` holds the columns of a batch. An estimator is a frozen dataclass of its options. Called with
turns, it returns one advantage for each turn. `credit.losses`, `credit.gae` and
`credit.methods.turnrd` need torch and are not imported here. Reward wrappers are in
`credit.rewards`.
"""

from credit import anchors, filters, stats
from credit.estimators import Estimator, estimate, make, names
from credit.methods.empg import EMPG
from credit.methods.gigpo import GiGPO
from credit.methods.has import HAS, Judge, Progressive
from credit.methods.hgpo import HGPO
from credit.methods.igpo import IGPO
from credit.methods.istar import IStar, Prime
from credit.methods.kevin import Kevin
from credit.methods.mgr import MGR
from credit.methods.mt_grpo import MTGRPO, MTRLOO
from credit.methods.rebn import ReBN
from credit.methods.rtmc import RTMC
from credit.methods.signal import SignalCritic
from credit.methods.stapo import STAPO
from credit.methods.trace import TRACE
from credit.methods.trajectory import GRPO, RLOO, DrGRPO, MergedGRPO, Reinforce, ReinforcePP
from credit.methods.turn_rloo import TurnRLOO
from credit.rows import Rows, TurnRecord, rows, rows_of
from credit.turns import MissingColumn, Turns

__all__ = [
    "EMPG",
    "GRPO",
    "HAS",
    "HGPO",
    "IGPO",
    "MGR",
    "MTGRPO",
    "MTRLOO",
    "RLOO",
    "RTMC",
    "STAPO",
    "TRACE",
    "DrGRPO",
    "Estimator",
    "GiGPO",
    "IStar",
    "Judge",
    "Kevin",
    "MergedGRPO",
    "MissingColumn",
    "Prime",
    "Progressive",
    "ReBN",
    "Reinforce",
    "ReinforcePP",
    "Rows",
    "SignalCritic",
    "TurnRLOO",
    "TurnRecord",
    "Turns",
    "anchors",
    "estimate",
    "filters",
    "make",
    "names",
    "rows",
    "rows_of",
    "stats",
]
