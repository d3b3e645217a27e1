#!/bin/bash
# A pretraining on 4 nodes with 8 GPUs each, from the repository:
#
#     sbatch --requeue examples/cluster/slurm.sh
#
#SBATCH --job-name=albert
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
# Five minutes before its time is over, every worker gets SIGTERM: they save a
# checkpoint and end with exit code 3.
#SBATCH --signal=TERM@300
#SBATCH --open-mode=append

# On a file system that all nodes share.
SHARED=${SHARED:-/shared}

# One task is one worker, with all GPUs of its node. --distribution=block is
# the order in which the workers count one another.
srun --distribution=block --kill-on-bad-exit=0 .venv/bin/python run_pretraining.py \
    --cluster=slurm \
    --albert_config_file=base_v2 \
    --input_file="$SHARED/records/train*" \
    --eval_file="$SHARED/records/held_out*" --do_eval \
    --output_dir="$SHARED/run" \
    --train_batch_size=4096 \
    --gradient_accumulation_steps=2 \
    --precision=bfloat16
code=$?

# Stopped before its end: the same job goes on where it was.
if [ "$code" -eq 3 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
