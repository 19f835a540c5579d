"""A server keeps nothing of clients that behave badly."""

from tools.bench import soak


def test_clients_that_stall_reset_and_fall_silent_leave_nothing():
    report = soak.soak(6)
    assert report["connections"] > 20 and report["errors"] and report["aborted"]
    assert soak.missed(report) == []
