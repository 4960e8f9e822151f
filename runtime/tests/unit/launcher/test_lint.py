"""Tests of the messages about the environment before a run."""

from __future__ import annotations

import pytest

from aitne_train.launcher.environment_checks import (
    SHM_BYTES_PER_RANK,
    NodeFacts,
    check_hidden_peers,
    find_problems,
)

PLENTY = 64 * SHM_BYTES_PER_RANK


def said(
    environ: dict[str, str],
    ranks: int = 4,
    size: int = 4,
    cpus: int = 8,
    shm_bytes: int | None = PLENTY,
) -> str:
    facts = NodeFacts(
        ranks, size, cpus, shm_bytes, ["lo", "eth0", "ib0"], {"n1", "127.0.0.1"}.__contains__
    )
    return "\n".join(find_problems({"OMP_NUM_THREADS": "2", **environ}, facts))


def test_good_environment_gives_no_message() -> None:
    assert (
        said(
            {
                "CUDA_VISIBLE_DEVICES": "0,1,2,3",
                "MASTER_ADDR": "n1",
                "SLURM_NTASKS": "4",
                "NCCL_SOCKET_IFNAME": "ib",
            }
        )
        == ""
    )


def test_a_rank_that_sees_its_own_gpu_only_is_told_of_its_peers() -> None:
    words = check_hidden_peers({"CUDA_VISIBLE_DEVICES": "2"}, 4)
    assert words is not None
    assert "NCCL cannot copy from GPU to GPU" in words
    assert "torch.cuda.set_device" in words
    assert check_hidden_peers({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, 4) is None
    assert check_hidden_peers({"CUDA_VISIBLE_DEVICES": "2"}, 1) is None
    assert check_hidden_peers({}, 4) is None


@pytest.mark.parametrize("visible", ["NoDevFiles", "-1", "-1,0", ""])
def test_a_rank_without_gpus_shares_none(visible: str) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": visible}
    assert check_hidden_peers(environ, 2) is None
    assert said(environ) == ""
    assert check_hidden_peers({"CUDA_VISIBLE_DEVICES": "GPU-1b,-1,0"}, 2) is not None


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "shows 2 GPUs, and 4 ranks"),
        ({"SLURM_NTASKS": "8"}, "requested 8 tasks"),
        ({"OMP_NUM_THREADS": ""}, "each of 4 ranks gets 2, its share of 8 CPUs"),
        ({"OMP_NUM_THREADS": "8"}, "Set it to 2"),
        ({"NCCL_SOCKET_IFNAME": "ens"}, "no such network interface, but eth0, ib0, lo"),
        ({"NCCL_SOCKET_IFNAME": "=ib"}, "no such network interface"),
        ({"NCCL_SOCKET_IFNAME": "lo"}, "leaves only lo"),
        ({"NCCL_SOCKET_IFNAME": "^eth,ib"}, "leaves only lo"),
        (
            {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"},
            "HOROVOD_RANK, HOROVOD_SIZE remains from another run",
        ),
        ({"MASTER_ADDR": "gone"}, "knows no such host"),
    ],
)
def test_environment_problem_is_explained_with_remedy(environ: dict[str, str], words: str) -> None:
    text = said(environ)
    assert words in text
    assert text.count("\n") == 0


@pytest.mark.parametrize("name", ["^docker,lo", "eth0", "=ib0", "ens,eth"])
def test_interfaces_that_are_there(name: str) -> None:
    assert said({"NCCL_SOCKET_IFNAME": name}) == ""


def test_little_shared_memory() -> None:
    assert "/dev/shm has 64 MiB free, and 4 ranks may need 256" in said({}, shm_bytes=64 << 20)
    assert "/dev/shm is missing" in said({}, shm_bytes=None)
    assert said({}, ranks=1, size=1, shm_bytes=0) == ""
