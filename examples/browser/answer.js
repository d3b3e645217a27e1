// Answers texts with a folder of `export_saved_model.py --format=onnx`, in a
// browser or in Node. Nothing is loaded from a network.

import {
  AutoConfig,
  AutoModel,
  AutoTokenizer,
  FeatureExtractionPipeline,
  FillMaskPipeline,
  QuestionAnsweringPipeline,
  TextClassificationPipeline,
  TokenClassificationPipeline,
  env,
} from "@huggingface/transformers";

// By the class in config.json. `pipeline()` has no ALBERT for tags.
const PIPELINES = {
  AlbertForSequenceClassification: [
    TextClassificationPipeline,
    { top_k: null },
  ],
  AlbertForTokenClassification: [
    TokenClassificationPipeline,
    { ignore_labels: [] },
  ],
  AlbertForQuestionAnswering: [QuestionAnsweringPipeline, {}],
  AlbertForPreTraining: [FillMaskPipeline, {}],
  AlbertForMaskedLM: [FillMaskPipeline, {}],
  AlbertModel: [FeatureExtractionPipeline, {}],
};

/**
 * Loads the model in a folder.
 *
 * @param {string} root What the folder is in: a path, or a URL.
 * @param {string} name The name of the folder.
 * @param {object} options Those of `from_pretrained`, such as `dtype: "fp32"`.
 */
export async function load(root, name, options = {}) {
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = root;
  // A model that is exported anew has the same name.
  env.useBrowserCache = false;
  const config = await AutoConfig.from_pretrained(name);
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const model = await AutoModel.from_pretrained(name, options);
  keepSeparator(tokenizer);
  const [Pipeline, others] = PIPELINES[config.architectures[0]];
  const { pooling = "mean", normalize = false } = config;
  const isEncoder = Pipeline === FeatureExtractionPipeline;
  const settings = isEncoder ? { pooling, normalize } : others;
  const pipe = new Pipeline({ task: "", model, tokenizer });
  // Of a number, the pipeline would make a probability, which is always 1.
  async function numbers(text) {
    const { logits } = await model(tokenizer(text, { truncation: true }));
    return [...logits.data].map((score, i) => ({
      label: config.id2label[i],
      score,
    }));
  }
  const isNumber = config.problem_type === "regression";
  return {
    takesContext: Pipeline === QuestionAnsweringPipeline,
    tokenizer,
    model,
    answer: isNumber ? numbers : (...texts) => pipe(...texts, settings),
  };
}

// transformers.js cuts off the [SEP] of a text that is too long.
function keepSeparator(tokenizer) {
  const encode = tokenizer._encode_plus.bind(tokenizer);
  const longest = tokenizer.model_max_length;
  tokenizer._encode_plus = (...args) => {
    const encoded = encode(...args);
    if (encoded.input_ids.length > longest) {
      for (const values of Object.values(encoded)) values.length = longest;
      encoded.input_ids[longest - 1] = tokenizer.sep_token_id;
    }
    return encoded;
  };
}
