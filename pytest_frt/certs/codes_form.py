"""Refusal codes of the first steps: keys, the policy file, the envelope, and the form of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FORM_CODES: Final[Mapping[str, tuple[int, str, str]]] = {
    # signing and keys
    "KEY_FILE": (0, "the private key file is a link, open to others, foreign, or no Ed25519 key", "chmod 600 FILE"),
    "FILE_BUSY": (0, "another process holds the lock of the policy or set that is to change", "end that process"),
    "KEY_PASSPHRASE": (0, "the passphrase of the private key is missing or wrong", "give --passphrase"),
    "KEY_FORMAT": (1, "a public key is not `ed25519:` and canonical base64", "copy the line of the .pub file whole"),
    "KEY_WEAK": (1, "a public key is of small order or not canonical", "make a new key"),
    # policy
    "POLICY_FILE": (1, "the policy is a link, too large, foreign, or writable by others", "chmod go-w FILE"),
    "POLICY_SYNTAX": (1, "the policy is not UTF-8 TOML", "repair the line that the message names"),
    "POLICY_SCHEMA": (1, "a member of the policy is unknown, missing or of a wrong type", "repair the named member"),
    "POLICY_DUPKEY": (1, "one key is listed twice and would count twice against a threshold", "list each key once"),
    "POLICY_EXPIRED": (1, "the policy is past its `expires`", "get the current policy, or renew it and its version"),
    # envelope
    "SET_FILE": (2, "a file of the directory cannot be read", "check the file and its permissions"),
    "SET_SIZE": (2, "a certificate set has too many bytes or lines", "split the set"),
    "JSON_SIZE": (2, "a document is larger than its cap", "get the file anew"),
    "JSON_BOM": (2, "a document starts with a byte order mark", "save without one and sign again"),
    "JSON_NUL": (2, "a document holds a NUL byte", "get the file anew"),
    "JSON_UTF8": (2, "a document is not UTF-8", "get the file anew"),
    "JSON_DEPTH": (2, "a document is nested too deep", "get the file anew"),
    "JSON_TOKENS": (2, "a document has too many commas and colons", "split the certificate by seats"),
    "JSON_SYNTAX": (2, "a document is not JSON", "get the file anew"),
    "JSON_DUPKEY": (2, "an object repeats a key, or has two that differ in case only", "ask the issuer"),
    "JSON_FLOAT": (2, "a number is no integer, or no number at all", "ask the issuer: decimals travel as strings"),
    "JSON_INT": (2, "an integer is -0 or beyond 2**53 - 1", "ask the issuer"),
    "JSON_STRING": (2, "a string is too long, or holds control or invisible characters", "ask the issuer"),
    "ENVELOPE": (2, "a line is no DSSE envelope, or a member's name has another case", "get the file anew"),
    "PAYLOAD_TYPE": (2, "the payload type is not exactly ours", "this is another kind of document: remove it"),
    "SIG_COUNT": (2, "an envelope carries no signature, or too many", "sign the statement: frt sign"),
    "B64": (2, "base64 is not what an encoder writes", "get the file anew"),
    # signatures
    "SIG_NONE": (3, "no key of the policy signed these exact bytes", "get the file anew, or trust the key: frt trust"),
    "SIG_REVOKED": (3, "only keys that are revoked, denied or out of their window signed", "ask for one of a live key"),
    # statement
    "STATEMENT_TYPE": (5, "the statement type is not in-toto Statement v1", "ask the issuer"),
    "PREDICATE_TYPE": (5, "the predicate type is none of ours", "this is another kind of attestation: remove it"),
    "CRIT": (5, "`crit` is absent or names a restriction that this version does not know", "update pytest-frt"),
    "SCHEMA": (5, "a member of the predicate is missing, of a wrong type, or contradicts another", "ask the issuer"),
    "NAME": (5, "a name is not a plain relative path or identifier of ASCII segments", "ask the issuer"),
    "DIGEST": (5, "a digest is no sha256, or that of the empty file", "ask the issuer"),
    "DECIMAL": (5, "a number is not written as a plain decimal string", "ask the issuer"),
    "TIME_FORMAT": (5, "a moment is not written YYYY-MM-DDTHH:MM:SSZ", "ask the issuer"),
}  # fmt: skip
