import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest("parkazoo.aio needs Python 3.11")
