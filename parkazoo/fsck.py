"""``check`` reads every znode of every ensemble, and repairs what it safely can while clients go on working."""

from parkazoo.admin.fsck_report import Found, Report, Tally
from parkazoo.admin.walk import check

__all__ = ["Found", "Report", "Tally", "check"]
