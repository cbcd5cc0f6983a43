"""The check of Redis in `headwater doctor` (spec 8.2)."""

from pathlib import Path

import pytest

from tests.integration.test_doctor import Doctor, doctor
from tests.redis_server import RedisServer, find_program, run_redis

__all__ = ["doctor"]  # the fixture


def test_a_missing_redis_is_not_configured(doctor: Doctor) -> None:
    found = doctor.finds(exit_code=0)["redis"]
    assert found["state"] == "not configured"
    assert "HEADWATER_REDIS_URL" in found["fix"]


def test_a_redis_that_keeps_all_keys_is_ok(doctor: Doctor, redis_server: RedisServer) -> None:
    found = doctor.finds(exit_code=0, redis_url=redis_server.url)["redis"]
    assert found["state"] == "ok"
    assert "Redis 6.2" in found["found"]


def test_a_redis_that_evicts_keys_is_a_warning(doctor: Doctor, redis_server: RedisServer) -> None:
    """Spec 5.4: an evicted key is lost too early."""
    redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    found = doctor.finds(exit_code=0, redis_url=redis_server.url)["redis"]
    assert found["state"] == "warning"
    assert "allkeys-lru" in found["found"]
    assert "noeviction" in found["fix"]


def test_an_unreachable_or_closed_redis_fails_and_its_password_is_hidden(
    doctor: Doctor, redis_server: RedisServer
) -> None:
    found = doctor.finds(exit_code=1, redis_url="redis://me:hunter2@127.0.0.1:1/0")["redis"]
    assert found["state"] == "failed"
    assert "127.0.0.1:1" in found["found"]
    assert "hunter2" not in str(found)
    redis_server.client.config_set("requirepass", "hunter2")
    found = doctor.finds(exit_code=1, redis_url=redis_server.url)["redis"]
    assert "uthentication" in found["found"]


def test_a_replica_fails(doctor: Doctor, redis_server: RedisServer) -> None:
    redis_server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    found = doctor.finds(exit_code=1, redis_url=redis_server.url)["redis"]
    assert "replica" in found["found"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:6379", "must start with redis://"),
        ("redis://host:port/0", "must be as redis://"),
        ("redis://host/zero", "must be as redis://"),
        ("redis://host/0?decode_responses=yes", "decode_responses"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(doctor: Doctor, url: str, said: str) -> None:
    found = doctor.finds(exit_code=1, redis_url=url)
    assert said in found["settings"]["found"]
    assert found["redis"]["state"] == "not checked"


def test_a_redis_cluster_fails(doctor: Doctor, tmp_path: Path) -> None:
    program = find_program()
    if program is None:
        pytest.skip("redis-server cannot be run here")
    del tmp_path
    with run_redis(program, "--cluster-enabled", "yes", "--port", "0", "--cluster-config-file", "nodes.conf") as server:
        found = doctor.finds(exit_code=1, redis_url=server.url)["redis"]
    assert "cluster" in found["found"]
