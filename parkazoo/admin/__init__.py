"""Make, read, change and check the cluster map and what the protocol needs on each ensemble. Nothing is printed.

/parkazoo/map                  the primary on the bootstrap ensemble, a copy on each other one
/parkazoo/draft                on the bootstrap ensemble, while the map is being made
/parkazoo/history              on the bootstrap ensemble: the last changes of the map
/parkazoo/ensemble             on every ensemble: which one of which cluster this is
/parkazoo/ensemble/1, 2, ...   on an ensemble that went back: what a client has noted
/parkazoo/clients              on every ensemble: its clients' sessions, which register there
/parkazoo/mirrors, done        on the ensembles of the placement, if there is more than one
/parkazoo/fences/0 .. 1023     the same
/parkazoo/moves                on those that have got a directory from another: the moves under way
"""

from parkazoo.admin.accept_restore import accept_restore
from parkazoo.admin.change_hosts import change_hosts
from parkazoo.admin.check import MapProblem
from parkazoo.admin.clients import TIMEOUT_S, Auth
from parkazoo.admin.directory_move import abort_move, move_directory
from parkazoo.admin.grow import abort_growth, grow_map
from parkazoo.admin.health import Health, HealthFinding, check_cluster
from parkazoo.admin.history import MapChange, read_history
from parkazoo.admin.loss import Loss
from parkazoo.admin.make import init_map
from parkazoo.admin.new_identity import find_copied, give_new_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.readiness import find_unready
from parkazoo.admin.rebalance_plan import Branch, PlannedMove, RebalancePlan
from parkazoo.admin.rebalancing import rebalance
from parkazoo.admin.registrations import ClientList, RegisteredClient, describe_client, list_clients
from parkazoo.admin.removal import remove_ensemble
from parkazoo.admin.rise import DryRefusal, Waiting
from parkazoo.admin.rotation import add_identity, remove_identity
from parkazoo.admin.several_moves import SeveralMoves, move_below, move_off
from parkazoo.admin.shares import Left, add_rule, change_weights, describe_rule, find_left, remove_rule
from parkazoo.admin.spread import MapSpread, read_spread
from parkazoo.admin.status import ClusterStatus, check_map, read_status
from parkazoo.admin.strangers import Strangers, count_strangers
from parkazoo.admin.unconfirmed import UnconfirmedError
from parkazoo.admin.whereabouts import By, Elsewhere, Whereabouts, find_elsewhere, find_whereabouts
from parkazoo.protocol.epochs import Rule

__all__ = [
    "TIMEOUT_S",
    "Auth",
    "Branch",
    "By",
    "ClientList",
    "ClusterStatus",
    "DryRefusal",
    "Elsewhere",
    "Health",
    "HealthFinding",
    "Left",
    "Loss",
    "MapChange",
    "MapProblem",
    "MapSpread",
    "PlannedMove",
    "RebalancePlan",
    "RegisteredClient",
    "Rule",
    "SeveralMoves",
    "Strangers",
    "UnconfirmedError",
    "Waiting",
    "Whereabouts",
    "abort_growth",
    "abort_move",
    "accept_restore",
    "add_identity",
    "add_rule",
    "change_hosts",
    "change_weights",
    "check_cluster",
    "check_map",
    "count_strangers",
    "describe_client",
    "describe_rule",
    "find_copied",
    "find_elsewhere",
    "find_left",
    "find_unready",
    "find_whereabouts",
    "give_new_identity",
    "grow_map",
    "init_map",
    "list_clients",
    "move_below",
    "move_directory",
    "move_off",
    "read_history",
    "read_map",
    "read_spread",
    "read_status",
    "rebalance",
    "remove_ensemble",
    "remove_identity",
    "remove_rule",
]
