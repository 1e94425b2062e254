"""A certificate names every file that its signer judged: what is installed beside these was judged by nobody."""

from __future__ import annotations

from typing import Final

from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.registry import Registry

HINT: Final = "ask the issuer for a certificate of all files"


def check_whole(record: Record, registry: Registry) -> None:
    """Refuse a record that leaves out a file of the installed impl, structure, scheme or host entry.

    The imports of the installed files say which belong; nothing is executed. An empty file has no digest of its own and
    is left out.

    Raises:
        CertificateRefused: ``ROLE_FILE``: a file is not certified, or cannot be read.
        SpecError: an import leads out of the folder of its provider.
        UsageFault: an entry that the record names is not installed.
    """
    certified = {subject.name for subject in record.subjects}
    try:
        installed = registry.files(record.key.cell)
        missing = sorted(name for name, file in installed.items() if name not in certified and file.stat().st_size)
    except (OSError, SyntaxError) as fault:
        raise CertificateRefused("ROLE_FILE", f"the installed files cannot be read: {fault}") from fault
    if missing:
        raise CertificateRefused("ROLE_FILE", f"{', '.join(missing)} is installed and not certified", hint=HINT)
