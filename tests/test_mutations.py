"""Every fault of every list still fits the source, so that the lists cannot rot."""

import pytest

from tests.mutations import LISTS, ROOT, faults_of


@pytest.mark.parametrize("package", LISTS)
def test_planted_faults_fit_the_source(package):
    faults = faults_of(package)
    for fault in faults:
        compile(fault.planted(), fault.source, "exec")
        assert all((ROOT / file).is_file() for file in fault.tests), fault.what
    assert len({fault[:2] for fault in faults}) == len(faults), "two faults have one name"
