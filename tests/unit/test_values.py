from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from orion_recall.values import OUTCOMES, SOURCE_NAMES, Outcome, Scope, SourceName


def test_the_lists_of_names_are_the_names_of_the_types():
    assert get_args(SourceName) == SOURCE_NAMES
    assert get_args(Outcome) == OUTCOMES


def test_outcomes_are_in_the_order_in_which_the_first_that_applies_is_taken():
    assert OUTCOMES == ("invalid", "expired", "refused", "failed", "degraded", "empty", "ok")


def test_a_scope_cannot_be_widened_after_the_fact():
    scope = Scope(tenant="acme")
    with pytest.raises(FrozenInstanceError):
        scope.tenant = "other"  # pyright: ignore[reportAttributeAccessIssue]
