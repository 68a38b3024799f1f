"""Acts on a strategy (`ivm.planner.strategy`): one handler each, over an epoch's datasets.

What comes out is not stored here.
"""
