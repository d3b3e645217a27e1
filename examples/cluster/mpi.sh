#!/bin/bash
# A pretraining with mpirun, one worker on each of the given machines, from
# the repository:
#
#     examples/cluster/mpi.sh node1 node2 node3 node4
set -e

# On a file system that all machines share.
SHARED=${SHARED:-/shared}

# mpirun counts the ranks in the order of --host, which TF_CONFIG repeats.
mpirun_hosts=$(printf '%s:1,' "$@")
workers=$(printf '"%s:2222",' "$@")
export WORKERS="{\"worker\": [${workers%,}]}"
mpirun -x WORKERS --host "${mpirun_hosts%,}" -np $# --map-by node bash -c '
    TASK="{\"type\": \"worker\", \"index\": $OMPI_COMM_WORLD_RANK}"
    TF_CONFIG="{\"cluster\": $WORKERS, \"task\": $TASK}" exec "$@"' - \
    .venv/bin/python run_pretraining.py \
    --cluster=tf_config \
    --albert_config_file=base_v2 \
    --input_file="$SHARED/records/train*" \
    --eval_file="$SHARED/records/held_out*" --do_eval \
    --output_dir="$SHARED/run" \
    --train_batch_size=4096 \
    --gradient_accumulation_steps=2 \
    --precision=bfloat16
