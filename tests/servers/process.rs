//! Servers of the tests' own: on free ports of the loopback, with their data in a temporary folder,
//! and gone when the tests are, however those end.

#[path = "../common/port.rs"]
mod port;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use port::free_port;

/// A program that serves, and can be killed and started again over the same data.
pub(crate) struct Server {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    ready: Box<dyn Fn() -> bool + Send + Sync>,
    folder: PathBuf,
    running: Mutex<Running>,
}

struct Running {
    server: Child,
    /// What reads from here knows the server that runs; when nobody can write to it any more, since
    /// this process ended or was killed, it kills that and removes its data. An empty line says
    /// that none runs: the id of one that was killed may soon be somebody else's.
    keeper: ChildStdin,
}

const KEEPER: &str = r#"
    server=
    while read -r newest; do server=$newest; done
    [ -z "$server" ] || kill -s KILL -- "-$server" 2>/dev/null
    sleep 0.2
    rm -rf "$1"
"#;

/// How long a server may take to start. The slowest needs half a minute on a machine of its own.
const PATIENCE: Duration = Duration::from_secs(300);

impl Server {
    /// Starts a server that keeps its data in this folder, and waits until it is ready.
    ///
    /// The command must not go into the background. What it prints is in `log` in the folder.
    #[expect(clippy::zombie_processes, reason = "the keeper outlives this process")]
    pub(crate) fn start(
        folder: PathBuf,
        command: impl Fn() -> Command + Send + Sync + 'static,
        ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0) // so that an interrupt for the tests does not end it too early
            .spawn()
            .unwrap();
        let mut keeper = keeper.stdin.take().unwrap();
        let server = spawn(&command, &folder, &mut keeper);
        let server = Self {
            command: Box::new(command),
            ready: Box::new(ready),
            folder,
            running: Mutex::new(Running { server, keeper }),
        };
        server.wait();
        server
    }

    /// Kills it and starts it again, while others go on.
    pub(crate) fn die_and_return(&self) {
        tokio::task::block_in_place(|| {
            self.kill();
            self.restart();
        });
    }

    /// Kills it and everything that it started, at once.
    pub(crate) fn kill(&self) {
        let mut running = self.running.lock().unwrap();
        signal(&running.server, "STOP"); // so that it starts nobody who would be overlooked
        let started = started_by(running.server.id());
        signal(&running.server, "KILL");
        running.server.wait().unwrap();
        writeln!(running.keeper).unwrap();
        // What is left of them may still hold what a new server needs.
        let end = Instant::now() + Duration::from_secs(10);
        while started.iter().any(|id| parent(*id).is_some()) {
            assert!(Instant::now() < end, "{started:?} do not die");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Starts it again over the same data, and waits until it is ready.
    pub(crate) fn restart(&self) {
        {
            let mut running = self.running.lock().unwrap();
            running.server = spawn(&self.command, &self.folder, &mut running.keeper);
        }
        self.wait();
    }

    /// Stops it in its tracks: the kernel goes on to accept connections, and nobody answers.
    pub(crate) fn freeze(&self) {
        let running = self.running.lock().unwrap();
        signal(&running.server, "STOP");
        // On a busy machine it goes on until the thread that gets the signal has its turn.
        let end = Instant::now() + Duration::from_secs(60);
        let server = running.server.id();
        while !std::iter::once(server).chain(started_by(server)).all(stands_still) {
            assert!(Instant::now() < end, "{server} does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        signal(&self.running.lock().unwrap().server, "CONT");
    }

    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        while !(self.ready)() {
            let ended = self.running.lock().unwrap().server.try_wait().unwrap();
            if ended.is_some() || Instant::now() > end {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("the server did not start ({ended:?}):\n{log}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn spawn(command: &dyn Fn() -> Command, folder: &Path, keeper: &mut ChildStdin) -> Child {
    let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = command();
    let server = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    writeln!(keeper, "{}", server.id()).unwrap();
    server
}

/// To the whole group of processes, since a server may be several, and to all that it started,
/// since those of PostgreSQL are groups of their own.
fn signal(server: &Child, signal: &str) {
    let kill = |ids: &[String]| {
        Command::new("kill").args(["-s", signal, "--"]).args(ids).stderr(Stdio::null()).status()
    };
    let started: Vec<_> = started_by(server.id()).iter().map(ToString::to_string).collect();
    let group = format!("-{}", server.id());
    assert!(kill(&[group]).unwrap().success(), "no signal {signal} for {}", server.id());
    // Those of them that are in the group, or have ended meanwhile, are no failure.
    kill(&started).unwrap();
}

/// The processes that this one started, those that they started, and so on.
fn started_by(server: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap();
    let ids = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let mut family = vec![server];
    let mut next = 0;
    while let Some(member) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(id, _)| id));
        next += 1;
    }
    family.split_off(1)
}

/// Tells whether no thread of a process runs, or it has ended.
fn stands_still(id: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten();
    let states = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        status.rsplit_once(')')?.1.trim_start().chars().next()
    });
    states.into_iter().all(|state| "TtZX".contains(state))
}

/// The parent of a process, if it lives.
fn parent(id: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name stands in parentheses and may hold anything; behind it are its state and its parent.
    let mut fields = status.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    fields.next()?.parse().ok().filter(|_| state != "Z")
}

/// A folder for a server; the server that is started in it removes it.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("memory-prompt-{name}-{}", free_port()));
    fs::create_dir_all(&folder).unwrap();
    folder
}
