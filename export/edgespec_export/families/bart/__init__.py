"""BART and its relatives mBART and Marian."""
