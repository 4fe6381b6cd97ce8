"""Trials, run in parallel and kept one by one; the studies that regenerate the paper; its numbers beside ours."""
