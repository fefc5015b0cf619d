"""Policies: where launches run. The file the user writes, and the decision table (tessera/policy.h) the shim reads."""

from controlplane.policy.language import Executor, Interval, Log, Match, Nth, Policy, Rule, Share
from controlplane.policy.read import amount_of, policy_of, read_policy
from controlplane.policy.table import Launches, compile_table, read_launches, replace_rules

__all__ = [
    "Executor",
    "Interval",
    "Launches",
    "Log",
    "Match",
    "Nth",
    "Policy",
    "Rule",
    "Share",
    "amount_of",
    "compile_table",
    "policy_of",
    "read_launches",
    "read_policy",
    "replace_rules",
]
