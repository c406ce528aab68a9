"""Ports that processes of tests listen at."""

import socket

from tests.ports import free_port


def test_a_free_port_is_handed_out_once_and_can_be_listened_at() -> None:
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    for port in ports:
        socket.create_server(("127.0.0.1", port)).close()
