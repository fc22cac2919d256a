//! The house: which file may import which. Imports go down, never up and never across a floor.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

#[cfg(unix)]
#[path = "house/claims.rs"]
mod claims;
#[cfg(unix)]
#[path = "common/counted.rs"]
mod counted;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. A room is a file under `src/` with the folder of the same name.
const FLOORS: &[&[&str]] = &[
    &["error"],
    &["message", "text", "tool"],
    &["codec", "provider", "record", "token", "truncate"],
    &["prompt", "window"],
    &["pins"],
    &["summary"],
    &["compose", "memory", "wire"],
    &["recall", "store"],
    &["adapt", "history"],
    &["conformance"],
    &["memory_prompt"],
    &["inspect", "turn"],
    &["conversation", "export"],
    &["transport"],
];

/// Floors below this one do no I/O, take no lock, read no clock and log nothing; nor does
/// `compose`.
const PURE: usize = 6;

fn floor(room: &str) -> usize {
    let found = FLOORS.iter().position(|rooms| rooms.contains(&room));
    found.unwrap_or_else(|| panic!("src/{room}.rs has no floor in tests/house.rs"))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found
}

/// Each source file but `lib.rs`: its room, its path, and its code without comments.
fn rooms() -> Vec<(String, String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rooms = Vec::new();
    for path in sources(&src) {
        let inside = path.strip_prefix(&src).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let room = first.trim_end_matches(".rs").to_owned();
        if room == "lib" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let code = code.collect::<Vec<_>>().join("\n");
        rooms.push((room, inside.display().to_string(), code));
    }
    assert!(rooms.len() > 20, "the sources are where this test looks for them");
    rooms
}

#[test]
fn contributing_names_the_floors() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("CONTRIBUTING.md");
    let page = fs::read_to_string(page).unwrap();
    for (i, rooms) in FLOORS.iter().enumerate() {
        let line = format!("{}. `{}`", i + 1, rooms.join("`, `"));
        assert!(page.lines().any(|it| it == line), "not in CONTRIBUTING.md: {line}");
    }
}

#[test]
fn imports_go_down() {
    let mut upwards = Vec::new();
    for (room, path, code) in rooms() {
        for rest in code.split("crate::").skip(1) {
            let end =
                rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(rest.len());
            let target = &rest[..end];
            let known = FLOORS.iter().any(|rooms| rooms.contains(&target));
            if known && target != room && floor(target) >= floor(&room) {
                upwards.push(format!(
                    "{path} (floor {}) imports {target} (floor {})",
                    floor(&room),
                    floor(target)
                ));
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn names_are_imported_from_their_room() {
    // `use crate::Message` would hide on which floor it lives.
    for (_, path, code) in rooms() {
        let bad = code.lines().find(|line| {
            line.contains("use crate::{")
                || line.split("crate::").nth(1).is_some_and(|rest| {
                    !line.contains("pub(crate)")
                        && rest.starts_with(|c: char| c.is_ascii_uppercase())
                })
        });
        assert!(bad.is_none(), "{path}: {bad:?}");
    }
}

#[test]
fn composing_touches_nothing_outside() {
    for (room, path, code) in rooms() {
        if floor(&room) >= PURE && room != "compose" {
            continue;
        }
        let words = "std::fs std::net std::io parking_lot Mutex RwLock ::now() println!";
        for word in words.split(' ') {
            assert!(!code.contains(word), "{path} uses {word}");
        }
    }
}

#[test]
fn the_readme_links_to_what_the_package_holds() {
    // The registry shows the README beside the package, and docs.rs has no other files than its
    // own.
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(home.join(name)).unwrap();
    let (readme, manifest) = (read("README.md"), read("Cargo.toml"));
    let excluded = manifest.lines().find(|line| line.starts_with("exclude = ")).unwrap();
    let excluded: Vec<_> = excluded.split('"').filter(|it| it.starts_with('/')).collect();
    let links = readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let links: Vec<_> = links.filter(|link| !link.contains("://")).collect();
    assert!(links.len() > 5 && excluded.len() > 3, "{links:?} {excluded:?}");
    for link in links {
        let path = link.split('#').next().unwrap();
        assert!(home.join(path).is_file(), "README.md links to {path}, which is not there");
        let is_in = |folder: &&&str| Path::new(path).starts_with(folder.trim_start_matches('/'));
        let out = excluded.iter().find(is_in);
        assert!(out.is_none(), "README.md links to {path}, which the package leaves out");
    }
}

/// One guide linked to another by rustdoc's name of it, which leads nowhere in the repository.
#[test]
fn guides_link_to_what_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let text = |name: &str| fs::read_to_string(docs.join(name)).unwrap();
    let without_code =
        |text: &str| -> String { text.split("```").step_by(2).collect::<Vec<_>>().join("\n") };
    let mut seen = 0;
    for file in fs::read_dir(&docs).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let page = without_code(&text(&name));
        let inline = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // `guide` in src/lib.rs leads a link that is defined below the text to the page's module.
        let other = inline.clone().find(|link| !link.contains("://") && link.contains(".md"));
        assert!(other.is_none(), "docs/{name} links to {other:?} within its text");
        let defined = page.lines().filter(|line| line.starts_with('['));
        let defined = defined.filter_map(|line| Some(line.split_once("]: ")?.1));
        for link in inline.chain(defined).filter(|link| !link.contains("://")) {
            let (to, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = if to.is_empty() { &*name } else { to };
            assert!(docs.join(to).is_file(), "docs/{name} links to {link}, which is not there");
            let slug = |line: &str| -> String {
                let kept = line.trim_start_matches(['#', ' ']).chars();
                let kept = kept.filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.collect::<String>().to_lowercase().replace(' ', "-")
            };
            let headed = without_code(&text(to));
            let mut headings = headed.lines().filter(|line| line.starts_with('#'));
            let is_there = heading.is_empty() || headings.any(|line| slug(line) == heading);
            assert!(is_there, "docs/{name} links to {link}, and no heading there is called so");
            seen += 1;
        }
    }
    assert!(seen > 3, "{seen} links");
}

#[test]
fn the_root_stays_small() {
    // What a user writes stands at the root, and all else in its module: so many names, with every
    // feature. Macros have no other place than the root; there are two, for backends of one's own.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let root = fs::read_to_string(root).unwrap();
    let uses = root.split("\npub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let names = uses.flat_map(|path| {
        let names = path.split_once('{').map_or(path, |(_, names)| names);
        names.split(',').map(|name| name.trim_matches([' ', '\n', '}'])).filter(|it| !it.is_empty())
    });
    let names: Vec<_> = names.map(|name| name.rsplit("::").next().unwrap()).collect();
    assert!(names.contains(&"MemoryPrompt") && names.contains(&"Transport"), "{names:?}");
    assert!(names.len() <= 35, "{} names at the root: {names:?}", names.len());
}

/// The formatter leaves comments alone. Tables, addresses and code in examples may be longer.
#[test]
fn comments_are_no_wider_than_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wide = Vec::new();
    for path in ["src", "tests"].iter().flat_map(|folder| sources(&root.join(folder))) {
        let mut is_code = false;
        for (i, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let Some(text) = line.trim_start().strip_prefix("//") else { continue };
            let text = text.trim_start_matches(['/', '!']).trim_start();
            is_code ^= text.starts_with("```");
            let may_be_wide = is_code || text.starts_with('|') || text.starts_with('[');
            if line.chars().count() > 100 && !may_be_wide {
                wide.push(format!("{}:{}", path.display(), i + 1));
            }
        }
    }
    assert!(wide.is_empty(), "lines of more than 100 columns: {wide:#?}");
}

/// A page on a repository's site shows the lines that only rustdoc hides.
#[test]
fn examples_of_pages_hide_no_line() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let pages = fs::read_dir(docs).unwrap().map(|page| page.unwrap().path());
    let (mut examples, mut hidden) = (0, Vec::new());
    for page in pages.filter(|page| page.extension().is_some_and(|it| it == "md")) {
        let mut is_rust = false;
        for (i, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            if line.starts_with("```") {
                is_rust = line.starts_with("```rust");
                examples += usize::from(is_rust);
            } else if is_rust && (line == "#" || line.starts_with("# ")) {
                hidden.push(format!("{}:{}", page.display(), i + 1));
            }
        }
    }
    assert!(examples > 30 && hidden.is_empty(), "of {examples} examples: {hidden:#?}");
}

/// One said how it is run and not with which features, so that cargo refused it.
#[test]
fn examples_say_with_which_features_they_run() {
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    let mut needing = 0;
    for example in manifest.split("[[example]]\n").skip(1) {
        let example = example.split("\n\n").next().unwrap();
        let Some((_, features)) = example.split_once("required-features = ") else { continue };
        let name = example.split('"').nth(1).unwrap();
        let features: Vec<_> =
            features.lines().next().unwrap().split('"').skip(1).step_by(2).collect();
        let code = fs::read_to_string(format!("examples/{name}.rs")).unwrap();
        let head: String = code.lines().take_while(|line| line.starts_with("//!")).collect();
        let run = format!("cargo run --example {name} --features {}", features.join(","));
        assert!(head.contains(&run), "examples/{name}.rs does not say `{run}` at its head");
        needing += 1;
    }
    assert!(needing > 5, "{needing} examples need features");
}

/// A chat with two tools, of which one waits for a person, that goes on after a restart, once took
/// 42 lines, most of them to find the call again.
#[test]
fn a_chat_with_approval_and_restart_is_short() {
    let chat = fs::read_to_string("examples/approval.rs").unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.starts_with("//!");
    let lines = chat.lines().filter(is_code).count();
    assert!(lines <= 29, "{lines} lines");
    let holds = |words: &[&str]| words.iter().all(|word| chat.contains(word));
    assert!(holds(&[".approve(", ".refuse(", ".recover(", ".waiting()", "needing_approval"]));
}

/// The modules of `src`, by their path from the crate on, with the code of each.
fn modules() -> BTreeMap<Vec<String>, String> {
    let modules = rooms().into_iter().map(|(_, path, code)| {
        let module = path.trim_end_matches(".rs").split(['/', '\\']).map(str::to_owned);
        (module.collect(), code)
    });
    modules.collect()
}

/// The paths that a file imports, each whole: `use a::{b, c::d}` names two.
fn imports(code: &str) -> Vec<Vec<String>> {
    fn expand(prefix: &[String], tree: &str, found: &mut Vec<Vec<String>>) {
        let (head, rest) = match tree.find('{') {
            Some(at) => (&tree[..at], Some(tree[at + 1..].trim_end().trim_end_matches('}'))),
            None => (tree, None),
        };
        let segments = head.split(" as ").next().unwrap().split("::").map(str::trim);
        let mut path = prefix.to_vec();
        path.extend(segments.filter(|it| !it.is_empty()).map(str::to_owned));
        let Some(rest) = rest else {
            found.push(path);
            return;
        };
        let (mut depth, mut from) = (0, 0);
        for (at, c) in rest.char_indices().chain([(rest.len(), ',')]) {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !rest[from..at].trim().is_empty() {
                        expand(&path, rest[from..at].trim(), found);
                    }
                    from = at + 1;
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    let mut lines = code.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        let start = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
            None => rest,
        });
        let Some(tree) = start.trim_start().strip_prefix("use ") else { continue };
        let mut tree = tree.to_owned();
        while !tree.contains(';') {
            tree.push_str(lines.next().unwrap_or(";"));
        }
        expand(&[], tree.split(';').next().unwrap(), &mut found);
    }
    found
}

/// Two files that import each other can only be read together. A file above others in its folder
/// hands their names on and lends them its own types: that is no circle.
#[test]
fn files_of_a_room_do_not_import_each_other() {
    let modules = modules();
    let absolute = |module: &[String], path: &[String]| {
        let leading = path.iter().take_while(|it| ["crate", "self", "super"].contains(&&***it));
        let (leading, names) = path.split_at(leading.count());
        let ups = leading.iter().filter(|it| *it == "super").count();
        let is_whole = leading.first().is_some_and(|it| it == "crate");
        let base = if is_whole { &[] } else { &module[..module.len().saturating_sub(ups)] };
        [base, names].concat()
    };
    let mut below: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (module, code) in &modules {
        for path in imports(code) {
            let whole = absolute(module, &path);
            let mut prefixes = (1..=whole.len()).rev().map(|n| &whole[..n]);
            let Some((other, _)) = prefixes.find_map(|it| modules.get_key_value(it)) else {
                continue;
            };
            if other.starts_with(module) || module.starts_with(other) || other[0] != module[0] {
                continue;
            }
            below.entry(module).or_default().insert(other);
        }
    }
    let reaches = |from: &[String], to: &[String]| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            for file in below.get(at).into_iter().flatten() {
                if *file == to {
                    return true;
                }
                if seen.insert(*file) {
                    next.push(file);
                }
            }
        }
        false
    };
    assert!(below.len() > 50, "imports are found: {}", below.len());
    let circles = below.keys().filter(|file| reaches(file, file));
    let circles: Vec<_> = circles.map(|file| file.join("::")).collect();
    assert!(circles.is_empty(), "these import each other: {circles:#?}");
}
