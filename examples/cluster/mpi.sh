#!/bin/bash
# A pretraining with mpirun, one worker on each of the given machines, from
# the repository:
#
#     examples/cluster/mpi.sh node1 node2 node3 node4
set -e

# On a file system that all machines share.
SHARED=${SHARED:-/shared}

# mpirun counts the ranks in the order of --host; --worker_hosts repeats it.
mpirun_hosts=$(printf '%s:1,' "$@")
worker_hosts=$(printf '%s:2222,' "$@")
mpirun --host "${mpirun_hosts%,}" -np $# --map-by node \
    .venv/bin/python run_pretraining.py \
    --cluster=mpi \
    --worker_hosts="${worker_hosts%,}" \
    --albert_config_file=base_v2 \
    --input_file="$SHARED/records/train*" \
    --eval_file="$SHARED/records/held_out*" --do_eval \
    --output_dir="$SHARED/run" \
    --train_batch_size=4096 \
    --gradient_accumulation_steps=2 \
    --precision=bfloat16
