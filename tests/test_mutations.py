"""Every fault of every list still fits the source, so that the lists cannot rot."""

import re

import pytest

from tools.mutations import LISTS, ROOT, faults_of


@pytest.mark.parametrize("package", LISTS)
def test_planted_faults_fit_the_source(package):
    faults = faults_of(package)
    for fault in faults:
        compile(fault.planted(), fault.source, "exec")
        assert all((ROOT / file).is_file() for file in fault.tests), fault
    assert len(set(map(str, faults))) == len(faults), "two faults have one name"


def test_the_page_counts_them():
    rows = re.findall(
        r"^\| `(\S+)` \| (\d+) \|$", (ROOT / "docs/testing.md").read_text(), re.MULTILINE
    )
    assert dict(rows) == {package: str(len(faults_of(package))) for package in LISTS}
