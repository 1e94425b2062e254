// Reads {"key": PEM, "bundles": [...]} from stdin and writes one answer a bundle: the payload in base64, or null and why.
import { createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { bundleFromJSON } from "@sigstore/bundle";
import { toSignedEntity, toTrustMaterial, Verifier } from "@sigstore/verify";

const { key, bundles } = JSON.parse(readFileSync(0, "utf8"));
const publicKey = createPublicKey(key);
const root = { mediaType: "", tlogs: [], certificateAuthorities: [], ctlogs: [], timestampAuthorities: [] };
const trust = toTrustMaterial(root, () => ({ publicKey, validFor: () => true }));
const verifier = new Verifier(trust, { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0 });

function answer(document) {
  try {
    const bundle = bundleFromJSON(document);
    verifier.verify(toSignedEntity(bundle));
    return { payload: Buffer.from(bundle.content.dsseEnvelope.payload).toString("base64"), why: "" };
  } catch (error) {
    return { payload: null, why: `${error.name}: ${error.message}` };
  }
}

process.stdout.write(JSON.stringify(bundles.map(answer)));
