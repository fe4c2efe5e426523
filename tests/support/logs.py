"""Lines as workers write them with --log-jsonl."""
import json


def log_line(rank, step, seconds=0.5, loss=2.0, **changes):
    """An iteration of `seconds`, of which 0.1 are forward, 0.05 exposed communication and the
    rest backward."""
    return json.dumps({
        "step": step, "epoch": 0, "rank": rank, "loss": loss, "samples": 8,
        "iteration_seconds": seconds, "bytes_sent": 1000000, "bytes_received": 2000000,
        "phase_seconds": {"data": 0.0, "forward": 0.1, "backward": (seconds or 0) - 0.15,
                          "communication": 0.2, "exposed_communication": 0.05,
                          "optimizer": 0.0}, **changes}, separators=(",", ":")) + "\n"


def log_text(rank, steps=3, seconds=0.5):
    """From step 0; the loss falls by 0.1 a step."""
    return "".join(log_line(rank, step, seconds, 2 - 0.1 * step) for step in range(steps))
