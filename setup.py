"""The description for a package index, where the README's links into the checkout would lead nowhere.

Everything else is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
LINK_INTO_CHECKOUT = r"\[([^\]]+)\]\((?!https?://)[^)]+\)"

setup(
    long_description=re.sub(LINK_INTO_CHECKOUT, r"\1", README),
    long_description_content_type="text/markdown",
)
