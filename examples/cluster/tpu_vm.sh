#!/bin/bash
# A pretraining on a TPU VM of one host: creates it, copies repository and
# records, and starts the training. Needs gcloud and a project.
#
#     ZONE=us-central2-b RECORDS=records examples/cluster/tpu_vm.sh
set -e

NAME=${NAME:-albert}
ZONE=${ZONE:?such as us-central2-b}
TYPE=${TYPE:-v4-8}
# An image without a framework: the environment is installed below.
IMAGE=${IMAGE:-tpu-ubuntu2204-base}
RECORDS=${RECORDS:?the folder of train* and held_out*}

vm() { gcloud compute tpus tpu-vm "$@" --zone="$ZONE"; }

vm create "$NAME" --accelerator-type="$TYPE" --version="$IMAGE"
git archive --prefix=albert_tf/ --output=albert_tf.tar HEAD
vm scp albert_tf.tar "$NAME":
vm scp --recurse "$RECORDS" "$NAME":records
# TensorFlow's build for TPUs, of the version in requirements.lock, takes the
# place of tensorflow.
vm ssh "$NAME" --command='
    tar xf albert_tf.tar && cd albert_tf &&
    make .venv/runtime.stamp &&
    .venv/bin/python -m pip uninstall --yes tensorflow &&
    .venv/bin/python -m pip install "tensorflow-tpu==2.21.*"'
# In tmux, because a training outlives a connection.
vm ssh "$NAME" --command='
    cd albert_tf && tmux new-session -d -s albert "
    .venv/bin/python run_pretraining.py \
        --strategy=tpu \
        --precision=bfloat16 \
        --albert_config_file=base_v2 \
        --input_file=\"$HOME/records/train*\" \
        --eval_file=\"$HOME/records/held_out*\" --do_eval \
        --output_dir=$HOME/run \
        --train_batch_size=1024 2>&1 | tee -a $HOME/log"'
echo "Trains. Look:   gcloud compute tpus tpu-vm ssh $NAME --zone=$ZONE --command='tail -f log'"
echo "Fetch the run:  gcloud compute tpus tpu-vm scp --recurse $NAME:run . --zone=$ZONE"
echo "Delete the VM:  gcloud compute tpus tpu-vm delete $NAME --zone=$ZONE"
