"""The tables of Leviathan, Kalman and Matias (2022), recomputed and measured.

The paper's figures are in `paper_tables.json`, which names their source. The command line is
`edgespec reproduce`; the results are in docs/reproduction.md.
"""
