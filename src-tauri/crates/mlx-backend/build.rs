//! Compiles the CPU's products, attention and scans, on Linux, where MLX runs on the CPU.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=cpp");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // `tests/mlx/native.rs` counts these calls; Apple's linker has no such switch.
    for name in [
        "eval",
        "async_eval",
        "array_eval",
        "array_item_uint32",
        "array_item_int32",
        "array_item_float32",
        "array_item_bool",
        "array_tostring",
        "synchronize",
    ] {
        println!("cargo::rustc-link-arg-tests=-Wl,--wrap=mlx_{name}");
    }
    // Set by the override that `cargo xtask setup` writes; the link step explains what is missing without it.
    let include = std::env::var("DEP_MLX_INCLUDE").unwrap_or_default();
    let base = || {
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++20")
            .opt_level(3)
            .warnings(false)
            .flag("-Wno-psabi")
            .includes(include.split(':').map(Path::new));
        build
    };
    let kernel = |name: &str, architecture: Option<&str>| {
        let mut build = base();
        build.files(["cpp/kernel.cpp", "cpp/attention.cpp"]).define("BRAID_SET", name);
        if let Some(architecture) = architecture {
            build.flag(format!("-march={architecture}"));
        }
        build.compile(&format!("braid_kernel_{name}"));
    };
    let scan = |name: &str, architecture: Option<&str>| {
        let mut build = base();
        build.file("cpp/scan.cpp").define("BRAID_SCANS", format!("scans_{name}").as_str());
        // Nobody reads the floating point exceptions that would keep comparisons out of vectors.
        build.flag("-fno-trapping-math").flag("-fno-math-errno");
        if let Some(architecture) = architecture {
            build.flag(format!("-march={architecture}"));
        }
        build.compile(&format!("braid_scan_{name}"));
    };
    base()
        .file("cpp/primitive.cpp")
        .file("cpp/attention_primitive.cpp")
        .file("cpp/kv_write.cpp")
        .file("cpp/scan_primitive.cpp")
        .file("cpp/pool.cpp")
        .compile("braid_primitive");
    kernel("baseline", None);
    scan("baseline", None);
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        kernel("v3", Some("x86-64-v3"));
        scan("v3", Some("x86-64-v3"));
        kernel("v4", Some("x86-64-v4"));
        scan("v4", Some("x86-64-v4"));
    }
}
