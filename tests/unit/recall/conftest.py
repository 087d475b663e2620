from __future__ import annotations

import pytest

from orion_recall.models.tokenizer import TokenCounter


@pytest.fixture(scope="session")
def tokens() -> TokenCounter:
    return TokenCounter()
