// node schemas.mjs < OBJECTS: judges each Kubernetes object of a JSON list by its published schema,
// as npm packages have it compiled, which this file has to lie beside. Prints a JSON list of
// {"name": "Job gradwire", "verdict": "valid" | "no schema" | what is wrong}.
import {readFileSync} from "node:fs";

const groups = {
  "v1": "kubernetes-models/v1",
  "apps/v1": "kubernetes-models/apps/v1",
  "batch/v1": "kubernetes-models/batch/v1",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};

async function judge(object) {
  const group = groups[object.apiVersion];
  if (!group) return "no schema";
  try {
    new ((await import(group))[object.kind])(object).validate();
    return "valid";
  } catch (error) {
    return String(error.message);
  }
}

const objects = JSON.parse(readFileSync(0, "utf8"));
const verdicts = objects.map(async object => (
  {name: `${object.kind} ${object.metadata.name}`, verdict: await judge(object)}));
console.log(JSON.stringify(await Promise.all(verdicts)));
