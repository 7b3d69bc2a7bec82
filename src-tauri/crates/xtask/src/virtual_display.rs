//! The real app where there is no screen: Xvfb, tauri-driver and WebKit's driver, started and ended together.
//!
//! # What a script gets
//! A script is run with Node in `ui/` and these variables:
//!
//! | variable | value |
//! |---|---|
//! | `WEBDRIVER_URL` | where tauri-driver listens, such as `http://127.0.0.1:40123` |
//! | `BRAID_APP` | absolute path of the app's program, for `tauri:options.application` |
//! | `BRAID_OUT_DIR` | an existing folder for screenshots and other results |
//! | `BRAID_DATA_DIR` | the app's data folder; empty at the start |
//! | `BRAID_STARTER_MODEL` | absolute path of the starter model's folder |
//! | `BRAID_JSON` | where to write the report; unset if none is wanted |
//! | `DISPLAY` | the virtual display |
//!
//! The app inherits the same environment, with `LANG=en_US.UTF-8` and without a session bus. The script ends with
//! status 0 when everything it looked for was there.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::XtaskError,
    exec::{command, run, spawn_error, tail},
    setup::{remove_dir_if_there, starter_model, tauri_driver},
    workspace::Workspace,
};

/// A script and where its results go.
pub struct Script<'a> {
    /// Below `ui/`, such as `e2e/headless.mjs`.
    pub path: &'a str,
    /// The app's program.
    pub app: PathBuf,
    /// Emptied before the script starts.
    pub out_dir: PathBuf,
    pub json: Option<PathBuf>,
}

const START_LIMIT: Duration = Duration::from_secs(30);

/// Runs a script against the app in a display of its own, and ends everything it started.
///
/// # Errors
/// [`XtaskError::NotListening`] if the display or a driver does not come up, [`XtaskError::CommandFailed`] if the
/// script fails.
pub fn drive(workspace: &Workspace, script: &Script<'_>) -> Result<(), XtaskError> {
    let out_dir = &script.out_dir;
    remove_dir_if_there(out_dir)?;
    let data_dir = out_dir.join("data");
    fs::create_dir_all(&data_dir).map_err(XtaskError::io(&data_dir))?;

    let display = Display::start(out_dir)?;
    let environment = |command: &mut Command| {
        command
            .env("DISPLAY", &display.name)
            .env("LANG", "en_US.UTF-8")
            .env("NO_AT_BRIDGE", "1")
            .env("GDK_BACKEND", "x11")
            .env("BRAID_APP", &script.app)
            .env("BRAID_OUT_DIR", out_dir)
            .env("BRAID_DATA_DIR", &data_dir)
            .env("BRAID_STARTER_MODEL", starter_model(workspace));
        for name in ["DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "LC_ALL", "LANGUAGE"] {
            command.env_remove(name);
        }
    };
    let driver = Driver::start(workspace, out_dir, environment)?;
    let mut node = command("node", [script.path]);
    node.current_dir(workspace.ui_dir()).env("WEBDRIVER_URL", format!("http://127.0.0.1:{}", driver.port));
    environment(&mut node);
    if let Some(json) = &script.json {
        node.env("BRAID_JSON", json);
    }
    let result = run(&mut node);
    if result.is_err() {
        eprintln!("what the app and its driver said{}", tail(&read_log(&driver.log)));
    }
    result
}

/// A child that leads a process group; dropping it ends the whole group.
struct Group(Child);

impl Group {
    /// Starts it so that it also ends when xtask is killed: nothing is left holding a display or a port.
    fn spawn(command: &mut Command) -> Result<Self, XtaskError> {
        let child = command.process_group(0).spawn().map_err(|source| spawn_error(command, source))?;
        Ok(Self(child))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        for (signal, patience) in [("-TERM", Duration::from_secs(3)), ("-KILL", Duration::from_secs(2))] {
            let _ = command("kill", [signal, "--", &group]).stderr(Stdio::null()).status();
            let asked = Instant::now();
            while asked.elapsed() < patience {
                // Reaps the leader, which would count as alive until then.
                let _ = self.0.try_wait();
                if !group_is_alive(&group) {
                    return;
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn group_is_alive(group: &str) -> bool {
    command("kill", ["-0", "--", group]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// `program`, started so that it gets a signal when its parent ends.
fn tied(program: &Path) -> Command {
    let mut setpriv = command("setpriv", ["--pdeathsig", "TERM"]);
    setpriv.arg(program);
    setpriv
}

struct Display {
    name: String,
    _server: Group,
}

impl Display {
    /// Starts Xvfb on a free display number, which it chooses itself.
    fn start(out_dir: &Path) -> Result<Self, XtaskError> {
        let log = out_dir.join("xvfb.log");
        let mut xvfb = tied(Path::new("Xvfb"));
        xvfb.args(["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"]);
        xvfb.stdout(Stdio::piped()).stderr(log_file(&log)?);
        let mut server = Group::spawn(&mut xvfb)?;
        let mut number = String::new();
        if let Some(stdout) = server.0.stdout.take() {
            // Ends at once with an empty line if Xvfb does.
            BufReader::new(stdout).read_line(&mut number).map_err(XtaskError::io(&log))?;
        }
        if number.trim().is_empty() {
            let what = "any display".into();
            return Err(XtaskError::NotListening {
                program: "Xvfb",
                what,
                seconds: 0,
                tail: tail(&read_log(&log)),
            });
        }
        Ok(Self { name: format!(":{}", number.trim()), _server: server })
    }
}

struct Driver {
    port: u16,
    log: PathBuf,
    _process: Group,
}

impl Driver {
    /// Starts tauri-driver and waits for its own port and for that of WebKit's driver behind it.
    fn start(
        workspace: &Workspace,
        out_dir: &Path,
        environment: impl Fn(&mut Command),
    ) -> Result<Self, XtaskError> {
        let log = out_dir.join("driver.log");
        let (port, native_port) = free_ports().map_err(XtaskError::io("127.0.0.1"))?;
        let mut driver = tied(&tauri_driver(workspace));
        driver.args(["--port", &port.to_string(), "--native-port", &native_port.to_string()]);
        driver.stdout(log_file(&log)?).stderr(log_file(&log)?);
        environment(&mut driver);
        let process = Group::spawn(&mut driver)?;
        for (program, port) in [("tauri-driver", port), ("WebKitWebDriver", native_port)] {
            if !answers(port) {
                let what = format!("port {port}");
                let tail = tail(&read_log(&log));
                return Err(XtaskError::NotListening { program, what, seconds: START_LIMIT.as_secs(), tail });
            }
        }
        Ok(Self { port, log, _process: process })
    }
}

/// Two ports that were free a moment ago.
fn free_ports() -> std::io::Result<(u16, u16)> {
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((first.local_addr()?.port(), second.local_addr()?.port()))
}

fn answers(port: u16) -> bool {
    let started = Instant::now();
    while started.elapsed() < START_LIMIT {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}

fn log_file(path: &Path) -> Result<File, XtaskError> {
    File::options().create(true).append(true).open(path).map_err(XtaskError::io(path))
}

fn read_log(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_group_ends_its_grandchildren() {
        let mut shell = command("sh", ["-c", "sleep 600 & echo $!; wait"]);
        let mut group = Group::spawn(shell.stdout(Stdio::piped())).expect("sh starts");
        let mut grandchild = String::new();
        let stdout = group.0.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut grandchild).expect("sh prints the id");
        assert!(!grandchild.trim().is_empty());
        drop(group);
        let state = fs::read_to_string(format!("/proc/{}/stat", grandchild.trim())).unwrap_or_default();
        // Where process 1 does not reap, an ended orphan stays as a zombie.
        assert!(state.is_empty() || state.contains(") Z "), "still there: {state}");
    }

    #[test]
    fn the_two_ports_differ() {
        let (first, second) = free_ports().expect("loopback is there");
        assert_ne!(first, second);
    }
}
