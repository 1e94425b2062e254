"""A first trust policy for one developer: one key, plans only, and the floors of ``mandatory`` written out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pytest_frt.certs.keys import PublicKey
from pytest_frt.certs.mandatory import RULES
from pytest_frt.certs.policy import DEFAULT_INDEX_DAYS, DEFAULT_LIFE_DAYS, DEFAULT_SKEW_S, SCHEMA
from pytest_frt.certs.reading import time_text

POLICY_LIFE: Final = timedelta(days=365)
KEY_BEFORE: Final = timedelta(days=365)
KEY_AFTER: Final = timedelta(days=730)

_HEAD: Final = """\
# Who may certify what. Everything that no rule below allows is refused.
schema = "{schema}"
version = 1                       # raise it with every change
expires = "{expires}"
min_time = "{now}"   # a clock before this moment is wrong
skew_s = {skew}                      # forgives a late clock when a certificate was issued, never its expiry
max_life_days = {life}
weights = "exact"                 # certificates bind the bytes of the weights in memory
revision = "bytes"                # kernels are bound by bytes; a commit is information
composition = "plan"              # activate what was judged together; "cell" takes loose cells
allow_warn = false                # true takes gates that only reached their warn band
allow_synthetic = false           # true takes hosts on random weights (continuous integration)
# deny = [{{ tree = "<sha256>", reason = "..." }}]   also: payload, key, or repo with revision (whole, or local)
# allow_rollback = [{{ payload = "<sha256>", reason = "..." }}]   an older certificate that is kept on purpose

[index]                           # a publisher's signed list of what is current and what is revoked
required = false                  # true refuses what no fresh index of its issuer lists; revocations always count
# issuers = {{ {owner} = true }}     what one issuer needs, whatever "required" says
max_life_days = {index_life}               # an index that claims to live longer is refused

[require]                         # must be stated by a certificate
software = ["torch"]
device = ["arch", "name"]
host = ["configDigest", "moduleSourceDigest"]

[[key]]
owner = "{owner}"
public = "{public}"
from = "{key_from}"
until = "{key_until}"
status = "active"                 # retired: signs nothing after "until"; revoked: all it signed is refused

[[rule]]
issuer = "{owner}"
signers = ["{owner}"]
threshold = 1                     # distinct owners, never keys or signatures
min_serial = 0                    # refuses lower serials also where nothing is remembered
structures = ["*"]
kernels = ["*"]
hosts = ["*"]
devices = ["*"]
schemes = ["*"]

# A certificate is refused when a number, or the floor it was judged against, is worse than this.
"""


def starter_policy(public: PublicKey, owner: str, now: datetime) -> str:
    """Return the TOML text of a policy that lets ``owner`` certify everything with one key, at the suggested floors."""
    head = _HEAD.format(
        schema=SCHEMA,
        expires=time_text(now + POLICY_LIFE),
        now=time_text(now),
        skew=DEFAULT_SKEW_S,
        life=DEFAULT_LIFE_DAYS,
        index_life=DEFAULT_INDEX_DAYS,
        owner=owner,
        public=public.text,
        key_from=time_text(now - KEY_BEFORE),  # statements may be older than the policy that comes to trust them
        key_until=time_text(now + KEY_AFTER),
    )
    floors = [
        (name, rule.op, rule.suggested or str(rule.limit), rule.because)
        for name, rule in RULES.items()
        if rule.suggested or rule.limit is not None
    ]
    lines = [
        f'floors."{name}" = {{ op = "{op}", value = "{value}" }}  # {because}' for name, op, value, because in floors
    ]
    return "\n".join([head + lines[0], *lines[1:], ""])
