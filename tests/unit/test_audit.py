"""The audit of the locked packages (issue 21)."""

import pytest
from tools.audit import ROOT, Class, Locked, audit, classify, read_locked


def test_no_package_of_the_program_has_a_strong_or_unknown_licence() -> None:
    report = audit(read_locked(ROOT / "requirements.txt"))
    assert report.failures == []
    assert report.packages > 60
    assert report.advisories is None


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("Apache-2.0", Class.FREE),
        ("The BSD 2-Clause License", Class.FREE),
        ("Apache-2.0 AND MIT", Class.FREE),
        ("BSD-3-Clause, Apache-2.0, dependency licenses", Class.FREE),
        ("MPL-2.0", Class.WEAK),
        ("GNU Lesser General Public License v3 (LGPLv3)", Class.WEAK),
        ("MIT AND LGPL-2.1-or-later", Class.WEAK),
        ("MPL-1.1 OR GPL-2.0-only OR LGPL-2.1-or-later", Class.WEAK),
        ("GPL-3.0-only", Class.STRONG),
        ("MIT AND GPL-2.0-only", Class.STRONG),
        ("AGPL-3.0", Class.STRONG),
        ("GNU General Public License v2 (GPLv2)", Class.STRONG),
        ("GNU Affero General Public License v3", Class.STRONG),
        ("Proprietary", Class.UNKNOWN),
        ("", Class.UNKNOWN),
    ],
)
def test_a_licence_is_classified_by_the_mildest_choice(licence: str, expected: Class) -> None:
    assert classify(licence) is expected


def test_a_locked_version_with_a_known_fault_fails() -> None:
    affected = {"package": {"name": "aiohttp", "ecosystem": "PyPI"}, "versions": ["1.0", "1.1"]}
    advisory = {"id": "PYSEC-1", "summary": "Reads too far", "affected": [affected]}
    assert audit([Locked("aiohttp", "1.1")], [advisory]).failures == ["aiohttp 1.1: PYSEC-1 Reads too far"]
    assert audit([Locked("aiohttp", "1.2")], [advisory]).failures == []


def test_a_package_for_another_system_is_named_and_does_not_fail() -> None:
    report = audit([Locked("no-such-package", "1.0", "sys_platform == 'win32'")])
    assert (report.absent, report.failures) == (["no-such-package 1.0 (sys_platform == 'win32')"], [])
