"""Z-sets: bags whose rows have weights from an Abelian group.

With the operators of DBSP and differential dataflow on them.
"""
