"""Live queries of jobs: what the pages and the event streams show, and when it is stale."""

from jobs.live_queries import farm, lists, one
from jobs.live_queries.common import MEMBER, OPERATOR, PUBLIC

__all__ = ["MEMBER", "OPERATOR", "PUBLIC", "farm", "flows", "lists", "one"]
