"""Fails where a dependency asks for a later Rust than the crate says for these features."""

import json
import subprocess
import sys

# What a feature's own driver asks for, where that is later than `rust-version`.
LATER = {"cassandra": (1, 89), "sqlite": (1, 89)}


def number(text):
    return tuple(map(int, ((text or "0") + ".0").split(".")))[:2]


def asked(features):
    """Returns the latest Rust that the crate's build with these features asks for, and who does."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-default-features"]
    command += ["--features", ",".join(features)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    packages = {package["id"]: package for package in found["packages"]}
    needs = {node["id"]: node["deps"] for node in found["resolve"]["nodes"]}
    seen, todo = set(), [found["resolve"]["root"]]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        built = [dep for dep in needs[one] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
        todo += [dep["pkg"] for dep in built]
    return max((number(packages[one]["rust_version"]), packages[one]["name"]) for one in seen)


root = json.loads(subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"],
                                 capture_output=True, check=True).stdout)
root = next(package for package in root["packages"] if package["name"] == "memory-prompt")
ours, wrong = number(root["rust_version"]), False
for feature in sorted(root["features"]):
    most = max(ours, LATER.get(feature, ours))
    version, name = asked([feature])
    if version > most:
        wrong = True
        print(f"{feature}: {name} asks for Rust {version}, we say {most}")
print(f"Rust {ours}; later with {sorted(LATER)}")
sys.exit(wrong)
