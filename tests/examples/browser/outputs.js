// What a model makes of inputs, to be compared with Python.

import { load } from "./answer.js";

/** Returns the ids, outputs and answer of each input of each model. */
export async function compute(root, inputs) {
  const results = {};
  for (const [name, texts] of Object.entries(inputs)) {
    const { tokenizer, model, answer } = await load(root, name);
    results[name] = [];
    for (const [text, text_pair = null] of texts) {
      const ids = tokenizer(text, { text_pair, truncation: true });
      const outputs = await model(ids);
      const numbers = Object.entries(outputs).map(([output, tensor]) => [
        output,
        tensor.tolist()[0],
      ]);
      results[name].push({
        ids: [...ids.input_ids.data].map(Number),
        outputs: Object.fromEntries(numbers),
        answer: await answer(...[text, text_pair].filter(Boolean)),
      });
    }
  }
  return results;
}
