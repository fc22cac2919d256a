"""Fails where a dependency asks for a later Rust than the crate says for these features."""

import json
import subprocess
import sys

# What a feature's own driver asks for, where that is later than `rust-version`.
LATER = {"cassandra": (1, 89), "sqlite": (1, 89)}


def number(text):
    return tuple(map(int, ((text or "0") + ".0").split(".")))[:2]


def output(*command):
    return subprocess.run(["cargo", *command], capture_output=True, check=True, text=True).stdout


every = json.loads(output("metadata", "--format-version", "1", "--all-features"))["packages"]
known = {f"{package['name']} v{package['version']}": package for package in every}


def asked(features):
    """Returns the latest Rust that the crate's build with these features asks for, and who does."""
    command = ["tree", "--package", "memory-prompt", "--edges", "normal,build", "--prefix", "none"]
    command += ["--no-default-features", "--features", ",".join(features)]
    names = {" ".join(line.split()[:2]) for line in output(*command).splitlines() if line.strip()}
    return max((number(known[name]["rust_version"]), known[name]["name"]) for name in names)


root = next(package for package in every if package["name"] == "memory-prompt")
ours, wrong = number(root["rust_version"]), False
for feature in sorted(root["features"]):
    most = max(ours, LATER.get(feature, ours))
    version, name = asked([feature])
    if version > most:
        wrong = True
        print(f"{feature}: {name} asks for Rust {version}, we say {most}")
print(f"Rust {ours}; later with {sorted(LATER)}")
sys.exit(wrong)
