"""
What jobs ask for: devices, cores, memory, minutes. Local runs schedule by it, a cluster's jobs are killed at it.

REQUIRED INPUTS: none; SETTINGS and DEVICE of common.smk

OUTPUTS: none

A second attempt asks for more memory and more minutes. A candidate's own limits (timeouts_s) are the same in every
attempt: what happens at those is a verdict, what happens at a job's limits is a fault and leaves no record.
"""


def timeout_s(stage):
    """As a resource and not as a param: a longer limit changes nothing for those that met the old one."""
    return SETTINGS.timeouts_s.of(stage)


def growing(amount):
    """The first attempt gets the amount, the second twice as much, and so on."""
    return lambda wildcards, attempt: attempt * amount


def minutes(stage):
    """Minutes to ask for: a stage's whole limit, a canary after a timeout, and the start of processes."""
    building = timeout_s("compile") if stage in ("hidden-gate", "time-compile") else 0
    return ((protocol.STAGE_LIMIT_ANSWERS + 2) * timeout_s(stage) + building) // 60 + 5


def runtime_min(stage):
    return growing(minutes(stage))


def asking_threads(wildcards):
    """A job that waits for an endpoint takes no core where api_calls bounds how many there are."""
    return 0 if workflow.local_exec and "api_calls" in workflow.global_resources else 1


def asking_min(timeout_s, questions=1):
    """Minutes for so many requests one after the other, each with its retries."""
    return int(4 * questions * timeout_s) // 60 + 15


def gpus():
    return 1 if DEVICE == "cuda" else 0


def timing_threads():
    """On a CPU all cores are what is measured, so nothing may run beside it. In a cluster's job they are those that it
    was given, whatever the machine has."""
    if DEVICE == "cuda" or workflow.remote_exec:
        return 1
    return workflow.resource_settings.cores or 1


def require_device():
    """Before the first job: is there a GPU where one is asked for? On a cluster that is for each job to find out."""
    if workflow.local_exec:
        if not any(job.resources.get("gpu") for job in workflow.dag.needrun_jobs()):
            return  # tables and the paper are made of records from elsewhere, too
        try:
            resolve_device(SETTINGS.device)
        except ConfigError as error:
            raise WorkflowError(str(error)) from None
    elif SETTINGS.device == "auto":
        raise WorkflowError(
            "device: auto looks at the machine that plans the run, and a cluster's jobs run on others. Write device: "
            "cuda or cpu."
        )
    elif DEVICE == "cuda" and not SETTINGS.compile.arch:
        raise WorkflowError(
            "compile.arch is null: it would be that of the GPU of the machine that compiles, and a cluster compiles on "
            "nodes without one. Write the compute capability of the GPUs, as 9.0 (nvidia-smi --query-gpu=compute_cap)."
        )
