"""The tracer of the project walks on real parts, and no walk passes more code than it may."""

from tools.trace_walks import LIMITS, trace_walks


async def test_no_walk_passes_more_code_than_its_ceiling() -> None:
    sizes = {name: walk.size for name, walk in (await trace_walks()).items()}
    over = {name: size for name, size in sizes.items() if any(a > b for a, b in zip(size, LIMITS[name], strict=True))}
    assert over == {}
