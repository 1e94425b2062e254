"""Refusal codes of authority: deny list, time, rules, gates, composition, and what was seen before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TRUST_CODES: Final[Mapping[str, tuple[int, str, str]]] = {
    "DENIED": (6, "the policy denies this payload, kernel tree or commit", "take a release that is not denied"),
    # time
    "EXPIRED": (7, "the certificate is past its end", "get the renewed certificate, or certify again"),
    "NOT_YET": (7, "the certificate was issued in the future", "set the clock"),
    "LIFETIME": (7, "the certificate lives longer than the policy allows, or ends before it begins", "ask the issuer"),
    "KEY_WINDOW": (7, "it was issued outside the window of every key that signed", "ask the issuer for a live key"),
    # rules
    "NO_RULE": (8, "no rule lets this issuer certify this cell", "add a rule to the policy if you trust the issuer"),
    "THRESHOLD": (8, "too few of the owners that the rule lists have signed", "ask another owner to sign"),
    "SOFTWARE_MISSING": (8, "a version that the policy demands is not stated", "ask the issuer to certify again"),
    "DEVICE_MISSING": (8, "a device fact that the policy demands is not stated", "ask the issuer to certify again"),
    "HOST_MISSING": (8, "a host fact that the policy demands is not stated", "ask the issuer to certify again"),
    "WEIGHTS_BINDING": (8, "weights are bound by configuration and not by their bytes", "ask for an exact certificate"),
    "SYNTHETIC": (8, "the host was certified on random weights", "allow_synthetic = true where that is meant"),
    # gates
    "RESULT": (9, "the certificate says of itself that it failed", "remove it"),
    "GATE_DUP": (9, "a gate is stated twice", "ask the issuer"),
    "GATE_MISSING": (9, "a gate that is mandatory or demanded is absent", "certify again with this version"),
    "GATE_OP": (9, "a gate is stated in the wrong direction", "ask the issuer"),
    "GATE_SAMPLES": (9, "a gate has too few samples, or they do not give the stated number", "ask the issuer"),
    "GATE_FLOOR": (9, "a gate was judged against a looser floor than yours", "certify again at your floor"),
    "GATE_FAIL": (9, "a recomputed number does not hold", "do not use it: it is wrong or not faster"),
    "GATE_WARN": (9, "a gate reached its warning band only", "allow_warn = true if that is good enough"),
    # composition
    "PLAN_MEMBER": (12, "a member of the plan is refused, absent, or of another host, device or software",
                    "repair what refuses the member; keep a plan and its cells together"),
    # what is current
    "POLICY_ROLLBACK": (1, "a newer version of the policy was used before",
                        "put the newer policy back, or raise the version of this one"),
    "CLOCK_ROLLBACK": (1, "the clock is behind a moment that was seen before", "set the clock"),
    "TRUSTED_ROOT": (3, "the trusted root of keyless signatures is not the file that the policy pins",
                     "get the pinned file, or review the new one and pin its sha256"),
    "KEYLESS_EXTRA": (3, "the signature is keyless, sigstore is not installed", "pip install 'pytest-frt[sigstore]'"),
    "REVOKED": (12, "the issuer's index withdraws the certificate, its kernel or its key", "get the newer certificate"),
    "NOT_IN_INDEX": (12, "no index of the issuer lists the certificate, and the policy requires it",
                     "get the issuer's index, or the certificates that it lists"),
    "INDEX_EXPIRED": (12, "the issuer's index is past its end", "get the issuer's present index"),
    "INDEX_ROLLBACK": (12, "a newer index of the issuer is here or was seen before", "get the issuer's present index"),
    "ROLLBACK": (12, "a certificate of the same place with a higher serial was accepted before",
                 "get the newer certificate, or name this one in allow_rollback"),
    "EQUIVOCATION": (12, "two payloads of one issuer have the same serial or version",
                     "send both digests to the issuer and use neither"),
    "STATE_FILE": (1, "the state file or its lock is a link, special, foreign, or open to others",
                   "chmod go-w and own it, or name another state file"),
    "STATE_BUSY": (15, "another process holds the state file's lock", "end that process"),
    "STATE_CORRUPT": (1, "the state file is damaged", "restore it; removing it forgets every version that was seen"),
    "SERIAL_MIN": (12, "the serial is below the rule's min_serial", "get the newer certificate"),
}  # fmt: skip
