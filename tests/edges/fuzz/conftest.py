"""One server for each file of this folder, as tests/edges/network has it."""

from tests.edges.network.conftest import ada, crew, running, server

__all__ = ["ada", "crew", "running", "server"]
