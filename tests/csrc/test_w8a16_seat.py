"""The seat-level battery over the impl of the compiled kernel, at sizes that no vector width divides."""

from __future__ import annotations

from pytest_frt.testing import ImplTests


class TestGatedBlock(ImplTests):
    structure = "decoder_ffn"
    impl = "frt_w8a16"
    scheme = "w8a16_decode"
    dims = {"D": 63, "F": 95}  # noqa: RUF012 (declared as ClassVar by the class it derives from)
    variant = {"activation": "silu", "norm": "none", "residual": "none"}  # noqa: RUF012 (as above)
