"""A process that has opened another GPU than the leased one must not measure. Needs no GPU."""

import pytest

from kbverified.devices.cuda import require_same_gpu

FIRST, SECOND = "9727a686-583e-2d80-fb3c-d22fad949ceb", "1b2c3d4e-0000-1111-2222-333344445555"


@pytest.mark.parametrize("wanted", [f"GPU-{FIRST}", "", "0", "0,1", "MIG-5c89852c"])
def test_the_leased_gpu_or_a_name_that_says_nothing(wanted):
    require_same_gpu(wanted, FIRST)
    require_same_gpu(wanted, f"GPU-{FIRST}")


def test_another_gpu_is_refused_with_both_names():
    with pytest.raises(RuntimeError, match=f"was to use GPU-{SECOND} and has opened GPU-{FIRST}"):
        require_same_gpu(f"GPU-{SECOND}", FIRST)
