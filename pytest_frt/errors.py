"""The one error tree: every fault a person can meet names the thing, the number, the limit and the next step."""

from __future__ import annotations


class FrtError(Exception):
    """Base of every error this project raises on purpose.

    Args:
        message: What is wrong, naming the thing, the number and the limit.
        hint: The next step a person can take; empty when there is none.
    """

    code = "FRT"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def diagnostics(self) -> str:
        """Return the message and, on its own line, the next step."""
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class UsageFault(FrtError):
    """The command line or a configuration file asks for something that does not exist."""

    code = "USAGE"
    exit_code = 4


class MissingExtra(UsageFault):
    """A host or report needs a package that an extra of this distribution installs."""

    code = "MISSING_EXTRA"


class SpecError(FrtError):
    """A structure.yaml, host.yaml, device file or `IMPL` literal breaks its schema."""

    code = "SPEC"
    exit_code = 4


class ProviderBroken(FrtError):
    """An installed package that adds entries could not be read; its cells are not certified."""

    code = "PROVIDER"


class CheckpointError(FrtError):
    """A checkpoint cannot be read, or a loaded tensor differs from the file."""

    code = "CHECKPOINT"
    exit_code = 4


class KernelUnavailable(FrtError):
    """No build of the kernel serves this machine: `NOT_SUPPORTED`, never a failure."""

    code = "KERNEL_UNAVAILABLE"


class KernelMismatch(FrtError):
    """A kernel was found, but its bytes are not the certified ones."""

    code = "KERNEL_MISMATCH"


class GuardRefused(FrtError):
    """Strict mode met a call outside the certified form."""

    code = "GUARD"


class GateRefused(FrtError):
    """The single-seat door measured a part that must not be handed out."""

    code = "GATE"


class SwapRefused(FrtError):
    """A change to the model cannot be made or undone; nothing was left half-done."""

    code = "SWAP"


class CalibrationRefused(FrtError):
    """A calibration point was never seen, was seen late, or holds NaN or Inf."""

    code = "CALIBRATION"


class EvidenceError(FrtError):
    """Evidence on disk is missing, truncated, over its cap, or not what was asked for."""

    code = "EVIDENCE"


class WaiverFault(FrtError):
    """A waiver expired, covers nothing, or covers a gate that needs none."""

    code = "WAIVER"


class RegressionFault(FrtError):
    """Something got worse since an earlier run, by a rule that was asked to fail for it."""

    code = "REGRESSION"


class StorageFault(FrtError):
    """The output directory cannot be written; what was measured before stays on disk."""

    code = "STORAGE"


class CertificateRefused(FrtError):
    """A certificate, key or policy fails one numbered step of verification.

    Args:
        code: The stable refusal code, e.g. ``SIG_NONE``.
        message: What differs, with both values.
        hint: The next step.
    """

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.refusal_code = code

    def diagnostics(self) -> str:
        """Return the stable code in front of the message."""
        return f"[{self.refusal_code}] {super().diagnostics()}"
