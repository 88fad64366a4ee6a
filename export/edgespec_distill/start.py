"""The shape of a finished draft whose training is continued."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from edgespec.errors import UsageError
from edgespec_distill.card import RECORD
from edgespec_distill.plan import SHAPE, Plan

__all__ = ["with_shape_of_start"]


def with_shape_of_start(plan: Plan) -> Plan:
    """The plan with the shape of the draft in `plan.start`; the plan itself if there is none.

    Raises:
        UsageError: `plan.start` is not a folder that `edgespec distill` wrote.
    """
    if plan.start is None:
        return plan
    try:
        record = json.loads((Path(plan.start) / RECORD).read_text(encoding="utf-8"))
        default = Plan(layers=record["plan"]["layers"])  # older records lack some fields
        shape = {name: record["plan"].get(name, getattr(default, name)) for name in SHAPE}
        return dataclasses.replace(plan, **shape)
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(
            f"start is {plan.start}, which is not a draft that edgespec distill wrote (it has no "
            f"valid {RECORD}); give the folder of such a draft"
        ) from None
