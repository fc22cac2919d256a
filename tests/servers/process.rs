//! Servers of the tests' own: on free ports of the loopback, with their data in a temporary folder, and
//! gone when the tests are, however those end.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// A program that serves, and can be killed and started again over the same data.
pub(crate) struct Server {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    ready: Box<dyn Fn() -> bool + Send + Sync>,
    folder: PathBuf,
    running: Mutex<Running>,
}

struct Running {
    server: Child,
    /// What reads from here knows each server that was started; when nobody can write to it any more,
    /// since this process ended or was killed, it kills them and removes their data.
    keeper: ChildStdin,
}

const KEEPER: &str = r#"
    servers=
    while read -r server; do servers="$servers $server"; done
    for server in $servers; do kill -9 -- "-$server" 2>/dev/null; done
    sleep 0.2
    rm -rf "$1"
"#;

/// How long a server may take to start. The slowest needs half a minute on a machine of its own.
const PATIENCE: Duration = Duration::from_secs(300);

impl Server {
    /// Starts a server that keeps its data in this folder, and waits until it is ready.
    ///
    /// The command must not go into the background. What it prints is in `log` in the folder.
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

    /// Kills it and everything that it started, at once.
    pub(crate) fn kill(&self) {
        let mut running = self.running.lock().unwrap();
        signal(&running.server, "KILL");
        running.server.wait().unwrap();
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
        signal(&self.running.lock().unwrap().server, "STOP");
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
        .unwrap_or_else(|error| panic!("{:?} can't be started: {error}", command.get_program()));
    writeln!(keeper, "{}", server.id()).unwrap();
    server
}

/// To the whole group of processes, since a server may be several.
fn signal(server: &Child, signal: &str) {
    let group = format!("-{}", server.id());
    let status = Command::new("kill").args(["-s", signal, "--", &group]).status().unwrap();
    assert!(status.success(), "no signal {signal} for {group}");
}

/// A folder for a server; the server that is started in it removes it.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("memory-prompt-{name}-{}", free_port()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port of the loopback that nobody has now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
