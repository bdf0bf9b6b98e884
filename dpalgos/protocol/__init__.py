"""Analysis plans: the precision that each question needs, and the split of one (ε, δ) that gives it."""

from dpalgos.protocol.plan import AnalysisPlan as Plan
from dpalgos.protocol.questions import PlanQuestion, PlanTable

__all__ = ["Plan", "PlanQuestion", "PlanTable"]
