"""Statements, signatures, policy and verification of certificates, without torch.

Read in this order to audit what a deployer relies on (about an hour):

1. ``verify``       the numbered steps; ``outcomes`` how each ends, ``Accepted`` or ``Refused``
2. ``policy``       the trust file, ``policy_types`` what it says; ``authority`` steps 6 to 8: deny list, time, which
   signers may certify what
3. ``keys``         Ed25519 keys and files; ``dsse`` envelopes and what exactly is signed
4. ``strict_json``, ``strict_toml``  what is read at all; ``shape`` readers of one value each; ``reading`` the place
   and code of a value that does not fit
5. ``statement``    payload to certificate and back, through ``decode``, ``decode_bulk`` and ``encode``
6. ``gates``        numbers recomputed from samples; ``mandatory`` which gates, which limits
7. ``standing``     step 12: what an issuer's ``index`` says; ``state`` what was seen before; ``composition`` plans;
   ``state_file`` step 15
8. ``tree``         certified files as private copies; ``digest`` what has no file
9. ``files``, ``store``, ``starter``  reading with checks, atomic writing, directory layout, a first policy

``policy_edit`` and ``index_build`` serve those who write policies and indexes; no verifier runs them.

Every refusal is a ``CertificateRefused`` with a stable code. Nothing of a payload is parsed before its signature was
verified, and no verdict of a certificate is believed.
"""
