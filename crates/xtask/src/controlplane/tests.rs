use super::go::{Version, find_as};
use super::*;

fn settings(cache: &Path, assets: Option<&Path>) -> Settings {
    Settings {
        cache: cache.to_owned(),
        assets: assets.map(Path::to_owned),
        ..Settings::from_environment().unwrap()
    }
}

fn put(directory: &Path, program: Program) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(program.file_name()), "").unwrap();
}

#[test]
fn go_versions_are_read_and_ordered() {
    assert_eq!(Version::parse("1.26.8"), Some(Version(1, 26, 8)));
    assert_eq!(Version::parse("1.26"), Some(Version(1, 26, 0)));
    assert_eq!(Version::parse("1.27rc1"), Some(Version(1, 27, 0)));
    assert_eq!(Version::parse("devel"), None);
    assert!(Version(1, 9, 9) < Version(1, 26, 0));
}

#[test]
fn a_missing_go_is_a_sentence_that_says_what_to_install() {
    let error = find_as(Path::new("/nowhere/go"), Version(1, 26, 0))
        .unwrap_err()
        .to_string();
    assert!(error.contains("Go was not found"), "{error}");
    assert!(
        error.contains("install it from https://go.dev/dl/"),
        "{error}"
    );
    assert!(error.contains("Go 1.26.0 or newer"), "{error}");
}

#[test]
fn an_old_go_is_a_sentence_that_says_what_to_install() {
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    fs::write(&go, "#!/bin/sh\necho go version go1.21.3 linux/amd64\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&go, mode).unwrap();
    let error = find_as(&go, Version(1, 26, 0)).unwrap_err().to_string();
    assert!(error.starts_with("Go 1.21.3 is too old; "), "{error}");
    assert!(error.contains("Go 1.26.0 or newer"), "{error}");
}

#[test]
fn what_stands_in_the_cache_is_not_built_again() {
    let cache = tempfile::tempdir().unwrap();
    let settings = settings(cache.path(), None);
    let built = cache.path().join(settings.key().unwrap());
    for program in Program::ALL {
        put(&built, program);
    }
    assert_eq!(ensure_with(&settings, &Program::ALL).unwrap(), built);
}

#[test]
fn assets_that_hold_everything_are_used_as_they_are() {
    let (cache, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(assets.path(), Program::Etcd);
    let settings = settings(cache.path(), Some(assets.path()));
    assert_eq!(
        ensure_with(&settings, &[Program::Etcd]).unwrap(),
        assets.path()
    );
    assert_eq!(
        fs::read_dir(cache.path()).unwrap().count(),
        0,
        "nothing is built"
    );
}

#[test]
fn assets_that_hold_a_part_are_completed_from_the_cache() {
    let (cache, assets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(assets.path(), Program::Etcd);
    let settings = settings(cache.path(), Some(assets.path()));
    let built = cache.path().join(settings.key().unwrap());
    put(&built, Program::Helm);
    let directory = ensure_with(&settings, &[Program::Etcd, Program::Helm]).unwrap();
    let target = |program: Program| fs::read_link(directory.join(program.file_name())).unwrap();
    assert_eq!(target(Program::Etcd), assets.path().join("etcd"));
    assert_eq!(target(Program::Helm), built.join("helm"));
}
