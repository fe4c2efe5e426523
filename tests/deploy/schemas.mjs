// node schemas.mjs < ASKED: judges Kubernetes objects by their published schemas, as npm packages have
// them compiled, which this file has to lie beside. ASKED is a JSON list of {"module": of the
// object's schema, "object"}; prints a JSON list of "valid" or what is wrong, in the same order.
import {readFileSync} from "node:fs";

async function judge({module, object}) {
  try {
    new ((await import(module))[object.kind])(object).validate();
    return "valid";
  } catch (error) {
    return String(error.message);
  }
}

const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await Promise.all(asked.map(judge))));
