"""The tables of Leviathan, Kalman and Matias (2022), recomputed and measured.

Figures of the paper are in `paper_tables.json`, which names its source. `edgespec reproduce` is the
command line to this; docs/reproduction.md says what came out where.
"""
