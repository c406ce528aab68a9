"""What of limits is kept: states that are full again are as keys never used."""

from ratelimits import queries
from scheduling.operations import prune

prune("limits that are full", queries.prune)
