//! Debian and Ubuntu packages: found with dpkg, installed with apt-get when root, else asked for in one line.

use std::{collections::BTreeSet, env, fs, process::Command};

use super::{Outcome, Purpose, announce};
use crate::{
    error::XtaskError,
    exec::{capture, command, run},
};

/// Packages by what needs them.
const PACKAGES: &[(Purpose, &str)] = &[
    (Purpose::Bench, "pkg-config"),
    (Purpose::Bench, "libfmt-dev"),
    (Purpose::Bench, "libclang-dev"),
    (Purpose::Bench, "libopenblas0-pthread"),
    (Purpose::App, "libwebkit2gtk-4.1-dev"),
    (Purpose::App, "libgtk-3-dev"),
    (Purpose::App, "librsvg2-dev"),
    // What a chat may show: Latin and Arabic, emoji, Chinese, Japanese and Korean.
    (Purpose::App, "fonts-dejavu-core"),
    (Purpose::App, "fonts-noto-color-emoji"),
    (Purpose::App, "fonts-wqy-microhei"),
    (Purpose::Headless, "xvfb"),
    (Purpose::Headless, "webkit2gtk-driver"),
    (Purpose::Headless, "imagemagick"),
    (Purpose::Tests, "chromium"),
];

/// Installs what is missing for the purpose. macOS needs none of it.
pub fn install(purpose: Purpose) -> Result<Outcome, XtaskError> {
    if cfg!(target_os = "macos") || env::var_os("BRAID_SKIP_SYSTEM_PACKAGES").is_some() {
        return Ok(Outcome::AlreadyDone);
    }
    let wanted = wanted(purpose, &fs::read_to_string("/etc/os-release").unwrap_or_default());
    let missing = missing(&wanted)?;
    if missing.is_empty() {
        return Ok(Outcome::AlreadyDone);
    }
    if capture(&mut command("id", ["-u"]))?.trim() != "0" {
        return Err(XtaskError::MissingPackages { install_line: install_line(&missing), packages: missing });
    }
    announce(&format!("installing {}", missing.join(" ")));
    run(&mut apt(["update", "-qq"]))?;
    let mut apt_install = apt(["install", "-y", "-qq", "--no-install-recommends"]);
    run(apt_install.args(&missing))?;
    Ok(Outcome::Done(format!("installed {}", missing.join(" "))))
}

/// Ubuntu ships Chromium under another package name.
fn wanted(purpose: Purpose, os_release: &str) -> Vec<String> {
    let is_ubuntu = os_release.lines().any(|line| line == "ID=ubuntu");
    let named = |name: &str| match name {
        "chromium" if is_ubuntu => "chromium-browser".to_owned(),
        other => other.to_owned(),
    };
    PACKAGES.iter().filter(|(least, _)| *least <= purpose).map(|(_, name)| named(name)).collect()
}

fn missing(wanted: &[String]) -> Result<Vec<String>, XtaskError> {
    let mut query = command("dpkg-query", ["-W", "-f", "${Package} ${db:Status-Status}\n"]);
    // dpkg-query exits with 1 when it does not know one of the names, and still lists the others.
    let listed = match query.args(wanted).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(_) => return Err(XtaskError::UnknownSystem { needed: wanted.to_vec() }),
    };
    Ok(not_installed(wanted, &listed))
}

fn not_installed(wanted: &[String], listed: &str) -> Vec<String> {
    let installed: BTreeSet<&str> =
        listed.lines().filter_map(|line| line.strip_suffix(" installed")).collect();
    wanted.iter().filter(|name| !installed.contains(name.as_str())).cloned().collect()
}

fn install_line(missing: &[String]) -> String {
    format!("sudo apt-get update && sudo apt-get install -y --no-install-recommends {}", missing.join(" "))
}

fn apt<const N: usize>(args: [&str; N]) -> Command {
    let mut apt = command("apt-get", args);
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_unknown_packages_are_missing() {
        let wanted: Vec<String> = ["xvfb", "chromium", "libfmt-dev"].map(Into::into).into();
        let listed = "xvfb installed\nchromium config-files\n";
        assert_eq!(not_installed(&wanted, listed), ["chromium", "libfmt-dev"]);
    }

    #[test]
    fn the_line_to_run_names_every_missing_package() {
        let line = install_line(&["xvfb".into(), "libfmt-dev".into()]);
        assert!(line.starts_with("sudo apt-get update && sudo apt-get install"));
        assert!(line.ends_with("xvfb libfmt-dev"));
    }

    #[test]
    fn ubuntu_gets_its_own_name_for_chromium() {
        assert!(wanted(Purpose::Tests, "ID=debian\n").contains(&"chromium".to_owned()));
        assert!(
            wanted(Purpose::Tests, "NAME=\"Ubuntu\"\nID=ubuntu\n").contains(&"chromium-browser".to_owned())
        );
    }

    #[test]
    fn a_window_on_a_screen_needs_no_virtual_display() {
        let app = wanted(Purpose::App, "");
        assert!(app.contains(&"libwebkit2gtk-4.1-dev".to_owned()) && !app.contains(&"xvfb".to_owned()));
        assert!(wanted(Purpose::Headless, "").contains(&"xvfb".to_owned()));
    }
}
