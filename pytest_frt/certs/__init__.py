"""Statements, signatures, policy and verification of certificates, without torch.

Read in this order to audit what a deployer relies on (about an hour):

1. ``verify``       the numbered steps and the two outcomes, ``Accepted`` and ``Refused``
2. ``policy``       the trust file; ``authority`` steps 6 to 8: deny list, time, which signers may certify what
3. ``keys``         Ed25519 keys and files; ``dsse`` envelopes and what exactly is signed
4. ``strict_json``, ``strict_toml``  what is read at all; ``reading`` typed access to a parsed document
5. ``statement``    payload to certificate and back, through ``decode`` and ``encode``
6. ``gates``        numbers recomputed from samples; ``mandatory`` which gates, which limits
7. ``tree``         certified files as private copies; ``digest`` what has no file
8. ``files``, ``store``, ``starter``  reading with checks, atomic writing, directory layout, a first policy

Every refusal is a ``CertificateRefused`` with a stable code. Nothing of a payload is parsed before its signature was
verified, and no verdict of a certificate is believed.
"""
