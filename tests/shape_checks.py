"""The type checker of `test_array_shapes.py`: beartype, with int accepted where float is stated."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
