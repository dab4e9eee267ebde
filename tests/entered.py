"""A context until the end of a test, as by TestCase.enterContext, which is new in Python 3.11."""

from __future__ import annotations

import unittest
from contextlib import AbstractContextManager
from typing import TypeVar

T = TypeVar("T")


def entered(test: unittest.TestCase, context: AbstractContextManager[T]) -> T:
    value = context.__enter__()
    test.addCleanup(context.__exit__, None, None, None)
    return value
