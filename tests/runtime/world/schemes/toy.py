"""A scheme with static scales. Attaching compares its bytes and never executes it."""

from pytest_frt.contracts.scheme import Scheme

SCHEME = Scheme(name="toy", summary="Toy.", statistic="amax")  # type: ignore[call-arg]
