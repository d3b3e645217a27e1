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
from typing import Annotated, Any

import fastapi
import onnxruntime
import pydantic

from albert_tf.checkpoints import discovery
from albert_tf.tasks.classification.decision import Decision

MAX_TEXTS, MAX_CHARACTERS = 32, 20_000
Text = Annotated[str, pydantic.Field(max_length=MAX_CHARACTERS)]

run = discovery.open(os.environ["RUN"])
labels = run.metadata.labels or ()
# The temperature and the threshold that the evaluation has chosen.
decision = Decision(run.metadata.temperature, run.metadata.thresholds)
session = onnxruntime.InferenceSession(os.environ["MODEL"])
app = fastapi.FastAPI()


class Request(pydantic.BaseModel):
    """Texts to classify."""

    texts: Annotated[list[Text], pydantic.Field(min_length=1)]


@app.post("/predict")
def predict(request: Request) -> list[dict[str, Any]]:
    """Returns the predicted label and all probabilities, for each text."""
    if len(request.texts) > MAX_TEXTS:
        raise fastapi.HTTPException(413, f"At most {MAX_TEXTS} texts.")
    length = run.settings["max_seq_length"]
    batch = run.tokenizer.batch(request.texts, max_seq_length=length)
    [logits] = session.run(["logits"], batch)
    predictions = decision.predictions(logits).tolist()
    probabilities = decision.probabilities(logits).tolist()
    return [
        {
            "prediction": labels[best],
            "probabilities": dict(zip(labels, row, strict=True)),
        }
        for best, row in zip(predictions, probabilities, strict=True)
    ]
