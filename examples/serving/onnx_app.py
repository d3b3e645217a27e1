"""A classifier in ONNX Runtime behind FastAPI: texts in, answers out.

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
import types
from typing import Annotated, Any

import fastapi
import onnxruntime
import pydantic

from albert_tf.checkpoints import discovery
from albert_tf.tasks.classification.spec import ClassifierSpec

MAX_TEXTS, MAX_CHARACTERS = 32, 20_000
Text = Annotated[str, pydantic.Field(max_length=MAX_CHARACTERS)]

run = discovery.open(os.environ["RUN"])
session = onnxruntime.InferenceSession(os.environ["MODEL"])
[output] = session.get_outputs()
# It has the labels, and the temperature and the thresholds that the evaluation
# has chosen.
data: Any = ClassifierSpec().answer_data(
    run, types.SimpleNamespace(num_labels=output.shape[-1]), run.settings
)
app = fastapi.FastAPI()


class Request(pydantic.BaseModel):
    """Texts to classify."""

    texts: Annotated[list[Text], pydantic.Field(min_length=1)]


@app.post("/predict")
def predict(request: Request) -> list[dict[str, Any]]:
    """Returns for each text what `load_predictor` does."""
    if len(request.texts) > MAX_TEXTS:
        raise fastapi.HTTPException(413, f"At most {MAX_TEXTS} texts.")
    batch = run.tokenizer.batch(
        request.texts, max_seq_length=data.max_seq_length
    )
    [logits] = session.run([output.name], batch)
    return list(data.answers((), {"logits": logits}))
