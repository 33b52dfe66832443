//! `plumb volumes csi`: a volume's whole life through gRPC, kills of each process that it depends on, and csi-sanity.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use plumb_csi::client::{Client, Refusal};
use plumb_csi::messages::{
    AccessType, CapacityRange, Choice, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Empty,
    MountVolume, NodeExpandRequest, NodeExpandResponse, PublishRequest, StageRequest, StatsRequest,
    StatsResponse, Texts, UnpublishRequest, UnstageRequest, VolumeCapability,
};
use plumb_host::loop_device;

use crate::common::{code, plumb, run, signal, skip, skip_unprivileged, stderr, wait_until};

const MIB: i64 = 1 << 20;

/// Whether this machine can mount volumes.
fn can_mount() -> bool {
    if let Err(lacking) = plumb_csi::node::Node::can_serve() {
        if matches!(lacking, plumb_csi::Lacking::Program { .. }) {
            skip(&lacking.to_string());
        } else {
            skip_unprivileged(&format!("mount volumes ({lacking})"));
        }
        return false;
    }
    true
}

/// A driver, which is killed when it is dropped, with whatever it left behind.
struct Driver {
    child: Child,
    directory: tempfile::TempDir,
    /// The loop devices that existed before a kill. Afterwards, the files below them may have no path.
    before_kills: RefCell<Vec<String>>,
}

impl Driver {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let policy = ["policy", "create", "q500", "--max-iops", "500 IOPS"];
        let made = run(&[&["volumes", "--state", state.to_str().unwrap()], &policy[..]].concat());
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        Self { child: start(directory.path()), directory, before_kills: RefCell::default() }
    }

    fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = start(self.directory.path());
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("csi.sock")
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// The pid of the process that has these words in its command line; 0 while there is none.
    fn pid_of(&self, words: &str) -> u32 {
        processes(self.directory.path(), words).first().copied().unwrap_or(0)
    }

    /// Kills a process that the driver started, and returns its pid.
    fn kill(&self, words: &str) -> u32 {
        self.before_kills.borrow_mut().extend(self.devices());
        let killed = self.pid_of(words);
        signal(killed, "KILL");
        killed
    }

    /// Kills a process that the driver started, and waits until another one is in its place and the volume is built again.
    fn kill_and_await(&self, words: &str) {
        let killed = self.kill(words);
        wait_until("another process in its place", || ![0, killed].contains(&self.pid_of(words)));
    }

    /// Begins to write at random, 16 blocks at a time, and to read all of it again; it fails if something else is read. Under the policy
    /// q500, it lasts for 8 s: 2000 writes, and as many reads.
    fn write_and_check(&self, path: &str) -> Option<Child> {
        let mut fio = Command::new("fio");
        fio.args([
            "--name=verify",
            "--rw=randwrite",
            "--bs=4k",
            "--size=8000k",
            "--direct=1",
            "--iodepth=16",
        ]);
        fio.args([
            "--ioengine=libaio",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--end_fsync=1",
            "--filename",
            path,
        ]);
        let begun = fio.current_dir(self.directory.path()).stdout(Stdio::null()).spawn().ok();
        if begun.is_none() {
            skip("fio is not installed");
        }
        begun
    }

    /// The loop devices over files that still have a path.
    fn devices(&self) -> Vec<String> {
        let ours = self.directory.path().join("state/csi/volumes");
        let files = fs::read_dir("/sys/block").unwrap().flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let file = fs::read_to_string(path.join("loop/backing_file"));
            file.is_ok_and(|file| Path::new(&file).starts_with(&ours))
        };
        let names = files.filter(is_ours).filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        names.map(|name| format!("/dev/{name}")).collect()
    }

    /// The parts of it beside its own process: processes, mounts and loop devices.
    fn traces(&self) -> Vec<String> {
        let here = self.directory.path();
        let shown = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mounts = shown("/proc/self/mountinfo");
        let is_here = |line: &&str| line.contains(here.to_str().unwrap());
        let mut traces: Vec<String> = mounts.lines().filter(is_here).map(str::to_owned).collect();
        traces.extend(self.devices());
        let is_lost = |device: &&String| loop_device::has_lost_its_file(Path::new(device));
        traces.extend(self.before_kills.borrow().iter().filter(is_lost).cloned());
        let own = self.child.id();
        let running = processes(here, "").into_iter().filter(|pid| *pid != own);
        traces.extend(running.map(|pid| format!("process {pid}")));
        traces
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Before the files that they are over have no path any more.
        for device in self.devices() {
            let _ = Command::new("losetup").args(["--detach", &device]).status();
        }
        for pid in processes(self.directory.path(), "") {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let paths = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for path in paths.filter(|path| Path::new(path).starts_with(self.directory.path())) {
            let _ = Command::new("umount").args(["--lazy", path]).status();
        }
    }
}

fn start(directory: &Path) -> Child {
    let endpoint = format!("unix://{}", directory.join("csi.sock").display());
    let mut command = plumb();
    command.args(["volumes", "csi", "--endpoint", &endpoint, "--node", "node-1", "--state"]);
    let mut child = command.arg(directory.join("state")).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.by_ref().take_while(|line| !line.contains(" listens on ")).collect();
    assert!(child.try_wait().unwrap().is_none(), "it has ended: {said:?}");
    // nextest shows it if the test fails.
    let show = |line: String| drop(writeln!(std::io::stderr(), "the driver: {line}"));
    std::thread::spawn(move || lines.for_each(show));
    child
}

/// The processes with a path below a directory, and these words, in their command lines.
fn processes(directory: &Path, words: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_interest = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.contains(directory.to_str().unwrap()) && command.contains(words)
    };
    pids.filter(of_interest).collect()
}

fn mounted() -> Option<VolumeCapability> {
    capability(AccessType::Mount(MountVolume::default()))
}

fn capability(access_type: AccessType) -> Option<VolumeCapability> {
    Some(VolumeCapability { access_type: Some(access_type), access_mode: Some(Choice { number: 1 }) })
}

fn create(client: &Client, name: &str, volume_capability: Option<VolumeCapability>, policy: &str) -> String {
    let request = CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 128 * MIB, limit_bytes: 0 }),
        volume_capabilities: volume_capability.into_iter().collect(),
        parameters: Texts::from([("qosPolicy".to_owned(), policy.to_owned())]),
        ..CreateVolumeRequest::default()
    };
    let made: CreateVolumeResponse = client.call("Controller/CreateVolume", request).unwrap();
    made.volume.unwrap().volume_id
}

/// A volume that is to be staged and published.
struct Volume<'a> {
    driver: &'a Driver,
    id: String,
    staging: String,
    target: String,
    capability: Option<VolumeCapability>,
}

impl<'a> Volume<'a> {
    fn create(driver: &'a Driver, name: &str, capability: Option<VolumeCapability>, policy: &str) -> Self {
        let id = create(&driver.client(), name, capability.clone(), policy);
        let (staging, target) =
            (driver.path(&format!("{name}-staging")), driver.path(&format!("{name}-target")));
        Self { driver, id, staging, target, capability }
    }

    fn stage(&self) {
        self.stage_as(self.capability.clone()).unwrap();
    }

    fn stage_as(&self, volume_capability: Option<VolumeCapability>) -> Result<Empty, Refusal> {
        let request = StageRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.staging.clone(),
            volume_capability,
        };
        self.driver.client().call("Node/NodeStageVolume", request)
    }

    fn publish(&self) {
        self.publish_as(false).unwrap();
    }

    fn publish_as(&self, readonly: bool) -> Result<Empty, Refusal> {
        let request = PublishRequest {
            volume_id: self.id.clone(),
            staging_target_path: self.staging.clone(),
            target_path: self.target.clone(),
            volume_capability: self.capability.clone(),
            readonly,
        };
        self.driver.client().call("Node/NodePublishVolume", request)
    }

    /// False where the kernel lets nobody here grow a mounted file system, which then grows when it is staged again.
    fn expand(&self, required_bytes: i64) -> bool {
        let request = NodeExpandRequest {
            volume_id: self.id.clone(),
            volume_path: self.target.clone(),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        };
        match self.driver.client().call("Node/NodeExpandVolume", request) {
            Ok(NodeExpandResponse { capacity_bytes }) => {
                assert_eq!(capacity_bytes, required_bytes);
                true
            }
            Err((_, text)) => {
                assert!(text.contains("CAP_SYS_RESOURCE"), "{text}");
                false
            }
        }
    }

    fn total_bytes(&self) -> i64 {
        let request = StatsRequest { volume_id: self.id.clone(), volume_path: self.target.clone() };
        let stats: StatsResponse = self.driver.client().call("Node/NodeGetVolumeStats", request).unwrap();
        stats.usage[0].total
    }

    /// Each call twice: the second finds nothing to do.
    fn remove(&self) {
        let client = self.driver.client();
        for _ in 0..2 {
            let unpublish = UnpublishRequest { volume_id: self.id.clone(), target_path: self.target.clone() };
            let Empty {} = client.call("Node/NodeUnpublishVolume", unpublish).unwrap();
        }
        for _ in 0..2 {
            let unstage =
                UnstageRequest { volume_id: self.id.clone(), staging_target_path: self.staging.clone() };
            let Empty {} = client.call("Node/NodeUnstageVolume", unstage).unwrap();
        }
        for _ in 0..2 {
            let delete = DeleteVolumeRequest { volume_id: self.id.clone() };
            let Empty {} = client.call("Controller/DeleteVolume", delete).unwrap();
        }
    }

    /// Writes a file of the volume, and has it on disk.
    fn write(&self, name: &str, text: &str) {
        let mut file = fs::File::create(Path::new(&self.target).join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
    }

    fn read_text(&self, name: &str) -> std::io::Result<String> {
        fs::read_to_string(Path::new(&self.target).join(name))
    }
}

/// Has the kernel forget what it read, so that it is read from the volume.
fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

#[test]
fn a_mounted_volume_survives_kills_grows_and_leaves_nothing_behind() {
    if !can_mount() {
        return;
    }
    let mut driver = Driver::start();
    {
        let volume = Volume::create(&driver, "pvc-1", mounted(), "q500");
        volume.stage();
        volume.stage();
        volume.publish();
        volume.publish();
        volume.write("first", "before any kill");

        // The server: I/O waits until there is another one.
        driver.kill_and_await("volumes serve");
        drop_caches();
        assert_eq!(volume.read_text("first").unwrap(), "before any kill");
        volume.write("second", "after the server was killed");

        if volume.expand(256 * MIB) {
            assert!(volume.total_bytes() > 200 * MIB);
        } else {
            skip_unprivileged("grow a file system that is mounted");
        }
        assert_eq!(volume.read_text("first").unwrap(), "before any kill");
    }
    // The driver: nothing that is mounted notices.
    let daemon = driver.pid_of("type=fuse");
    let target = driver.path("pvc-1-target");
    let open = fs::File::create(Path::new(&target).join("open")).unwrap();
    driver.restart();
    open.write_all_at(b"through a kill of the driver", 0).unwrap();
    open.sync_all().unwrap();
    assert_eq!(driver.pid_of("type=fuse"), daemon, "the daemon outlives the driver");

    // The storage daemon: what is open fails, what was synchronised is there once it is built again.
    driver.kill_and_await("type=fuse");
    let first = Path::new(&target).join("first");
    wait_until("the volume to be built again", || fs::read_to_string(&first).is_ok());
    let late = open.write_all_at(b"late", 0).and_then(|()| open.sync_all());
    assert!(late.is_err(), "what was open is broken");
    drop(open);
    for (name, expected) in [
        ("first", "before any kill"),
        ("second", "after the server was killed"),
        ("open", "through a kill of the driver"),
    ] {
        assert_eq!(fs::read_to_string(Path::new(&target).join(name)).unwrap(), expected);
    }

    // Both, while there is no driver that would notice.
    driver.child.kill().unwrap();
    // The kernel caches attributes for a second. Without them, it does not return the label of a dead daemon's device.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    driver.kill("type=fuse");
    driver.kill("volumes serve");
    driver.restart();
    assert_eq!(fs::read_to_string(&first).unwrap(), "before any kill", "the driver mends before it listens");

    let id =
        fs::read_dir(driver.directory.path().join("state/csi/volumes")).unwrap().next().unwrap().unwrap();
    let id = format!("node-1/{}", id.file_name().to_str().unwrap());
    let staging = driver.path("pvc-1-staging");
    let volume = Volume { driver: &driver, id, staging, target, capability: mounted() };
    assert!(volume.total_bytes() > 200 * MIB, "staging grows what did not grow while it was mounted");
    volume.remove();
    wait_until("nothing to be left", || driver.traces().is_empty());
    assert!(fs::read_dir(driver.directory.path().join("state/data")).unwrap().next().is_none());
    assert!(fs::read_dir(driver.directory.path().join("state/csi/volumes")).unwrap().next().is_none());
}

#[test]
fn a_block_volume_is_a_device_that_grows() {
    if !can_mount() {
        return;
    }
    let driver = Driver::start();
    let volume = Volume::create(&driver, "pvc-2", capability(AccessType::Block(Empty {})), "");
    volume.stage();
    volume.publish();
    let device = fs::File::options().read(true).write(true).open(&volume.target).unwrap();
    device.write_all_at(&[7; 4096], 64 * MIB as u64).unwrap();
    device.sync_all().unwrap();
    drop(device);
    driver.kill_and_await("type=fuse");
    let read = || {
        let mut bytes = vec![0; 4096];
        let device = fs::File::open(&volume.target).ok()?;
        device.read_exact_at(&mut bytes, 64 * MIB as u64).ok().map(|()| bytes)
    };
    wait_until("the device to be there again", || read() == Some(vec![7; 4096]));
    assert!(volume.expand(256 * MIB));
    assert_eq!(volume.total_bytes(), 256 * MIB);
    let mut grown = fs::File::open(&volume.target).unwrap();
    assert_eq!(std::io::Seek::seek(&mut grown, std::io::SeekFrom::End(0)).unwrap(), 256 * MIB as u64);
    assert_eq!(grown.read(&mut [0; 1]).unwrap(), 0);
    drop(grown);
    volume.remove();
    wait_until("nothing to be left", || driver.traces().is_empty());
}

#[test]
fn writes_under_way_survive_kills_of_the_server_and_the_driver() {
    if !can_mount() {
        return;
    }
    let mut driver = Driver::start();
    let (id, staging, target) = {
        let volume = Volume::create(&driver, "pvc-3", mounted(), "q500");
        volume.stage();
        volume.publish();
        (volume.id, volume.staging, volume.target)
    };
    let Some(mut fio) = driver.write_and_check(&format!("{target}/fio")) else { return };
    for round in 0..3 {
        driver.kill_and_await("volumes serve");
        if round == 1 {
            driver.restart();
        }
        // On a busy machine, kills may take that long.
        if fio.try_wait().unwrap().is_some() {
            break;
        }
    }
    assert!(fio.wait().unwrap().success(), "what was written is read");
    Volume { driver: &driver, id, staging, target, capability: mounted() }.remove();
    wait_until("nothing to be left", || driver.traces().is_empty());
}

#[test]
fn writes_that_wait_for_a_server_keep_their_data_apart() {
    if !can_mount() {
        return;
    }
    let driver = Driver::start();
    let volume = Volume::create(&driver, "pvc-4", capability(AccessType::Block(Empty {})), "q500");
    volume.stage();
    volume.publish();
    let Some(mut fio) = driver.write_and_check(&volume.target) else { return };
    // Once is enough, and quick: after each further kill, the daemon waits longer before it connects again.
    driver.kill_and_await("volumes serve");
    assert!(fio.wait().unwrap().success(), "what was written is read");
    volume.remove();
    wait_until("nothing to be left", || driver.traces().is_empty());
}

#[test]
fn csi_sanity_finds_nothing_wrong() {
    if !can_mount() {
        return;
    }
    let driver = Driver::start();
    let endpoint = format!("unix://{}", driver.socket().display());
    let (staging, target) = (driver.path("staging"), driver.path("target"));
    let arguments = ["--csi.endpoint", &endpoint, "--csi.stagingdir", &staging, "--csi.mountdir", &target];
    let Ok(output) = Command::new("csi-sanity").args(arguments).arg("--ginkgo.no-color").output() else {
        return skip("csi-sanity is not installed");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let closing = said.lines().find(|line| line.contains(" Passed | "));
    assert!(closing.is_some_and(|line| line.contains("SUCCESS!") && line.contains(" 0 Failed ")), "{said}");
    wait_until("nothing to be left", || driver.traces().is_empty());
}

#[test]
fn what_fails_leaves_nothing_and_what_is_read_only_is_not_written() {
    if !can_mount() {
        return;
    }
    let driver = Driver::start();
    let volume = Volume::create(&driver, "pvc-4", mounted(), "q500");
    let odd = MountVolume { mount_flags: vec!["no-such-option".to_owned()], ..MountVolume::default() };
    volume.stage_as(capability(AccessType::Mount(odd))).unwrap_err();
    wait_until("nothing to be left", || driver.traces().is_empty());
    volume.stage();
    volume.publish_as(true).unwrap();
    assert!(fs::write(Path::new(&volume.target).join("file"), "text").is_err());
    // A target that is not there any more is made again, and nothing below it is touched.
    let daemon = driver.pid_of("type=fuse");
    assert!(Command::new("umount").arg(&volume.target).status().unwrap().success());
    wait_until("the target to be there again", || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().any(|line| line.contains(&volume.target))
    });
    assert_eq!(driver.pid_of("type=fuse"), daemon);
    // Another driver of the same state.
    let (state, other) = (driver.path("state"), format!("unix:{}", driver.path("other.sock")));
    let second = run(&["volumes", "csi", "--state", &state, "--endpoint", &other, "--node", "node-1"]);
    assert_eq!(code(&second), 2, "{}", stderr(&second));
    assert!(stderr(&second).contains("another node service has"), "{}", stderr(&second));
    volume.remove();
    wait_until("nothing to be left", || driver.traces().is_empty());
}
