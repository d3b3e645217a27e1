import { readFileSync, writeFileSync } from "node:fs";
import { compute } from "./outputs.js";

const inputs = JSON.parse(readFileSync("inputs.json"));
writeFileSync("outputs.json", JSON.stringify(await compute("./", inputs)));
