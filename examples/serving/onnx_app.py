"""A classifier in ONNX Runtime behind FastAPI: texts in, labels out.

Once, where TensorFlow is, with `pip install tf2onnx`:

    import albert_tf
    albert_tf.load_model("messages").export("messages.onnx", format="onnx")

The server needs albert_tf for the tokenizer, but imports no TensorFlow:

    pip install fastapi uvicorn onnxruntime
    RUN=messages MODEL=messages.onnx \
        uvicorn --app-dir examples/serving onnx_app:app

    curl localhost:8000/predict -H 'Content-Type: application/json' \
        -d '{"texts": ["Where do I find my invoices?"]}'
"""

import os
from typing import Annotated

import fastapi
import numpy as np
import onnxruntime
import pydantic

from albert_tf.checkpoints import discovery

MAX_TEXTS, MAX_CHARACTERS = 32, 20_000
Text = Annotated[str, pydantic.Field(max_length=MAX_CHARACTERS)]

run = discovery.open(os.environ["RUN"])
session = onnxruntime.InferenceSession(os.environ["MODEL"])
app = fastapi.FastAPI()


class Request(pydantic.BaseModel):
    """Texts to classify."""

    texts: Annotated[list[Text], pydantic.Field(min_length=1)]


@app.post("/predict")
def predict(request: Request) -> list[dict[str, float]]:
    """Returns the probability of each label, for each text."""
    if len(request.texts) > MAX_TEXTS:
        raise fastapi.HTTPException(413, f"At most {MAX_TEXTS} texts.")
    length = run.settings["max_seq_length"]
    batch = run.tokenizer.batch(request.texts, max_seq_length=length)
    [logits] = session.run(["logits"], batch)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities = powers / powers.sum(axis=-1, keepdims=True)
    return [
        dict(zip(run.metadata.labels, row.tolist(), strict=True))
        for row in probabilities
    ]
