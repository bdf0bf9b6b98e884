"""Analysis plans: the precision that each question needs, and the split of one (ε, δ) that gives it."""

from dpalgos.protocol.plan import Plan
from dpalgos.protocol.questions import PlanTable, Question

__all__ = ["Plan", "PlanTable", "Question"]
