//go:build linux

package packagetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The file systems of small machines, made by script/setup-tests all.
const (
	bookworm = ".cache/debian-bookworm-1.tar.zst"
	trixie   = ".cache/debian-trixie-1.tar.zst"
)

// checkout is the folder of the repository.
func checkout(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	must(t, err)
	return dir
}

// newRoot unpacks a file system into a new folder.
func newRoot(t testing.TB, system string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	archive := filepath.Join(checkout(t), system)
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("%v: run script/setup-tests all", err)
	}
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil { //nolint:gosec // every user enters it
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", root, "--zstd", "-xpf", archive).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	return root
}

// boot makes the folder the root of new namespaces and runs systemd there. A pivot is needed: the kernel refuses user namespaces, which
// bubblewrap makes, to a process that only changed its root.
const boot = `set -eu
root=$1 group=$2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for d in null zero full random urandom tty; do touch "$root/dev/$d"; mount --bind "/dev/$d" "$root/dev/$d"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/$group"
echo $$ > "$root/sys/fs/cgroup/$group/cgroup.procs"
umount "$root/sys/fs/cgroup"
ip link set lo up
cd "$root"
mkdir -p .old
exec unshare --cgroup sh -c 'mount -t cgroup2 cgroup2 sys/fs/cgroup; pivot_root . .old; umount -l /.old; rmdir /.old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=multi-user.target --log-target=null'
`

// machine is a running system.
type machine struct {
	t    *testing.T
	root string
	pid  int
}

func newMachine(t *testing.T, system string) *machine {
	t.Helper()
	m := &machine{t: t, root: newRoot(t, system)}
	group := fmt.Sprintf("claudeops-packagetest-%d", os.Getpid())
	cmd := exec.CommandContext(t.Context(), "bash", "-c", boot, "boot", m.root, group)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET, Setsid: true,
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	m.pid = cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the system does not end")
		}
		removeGroup(t, group)
	})
	for deadline := time.Now().Add(90 * time.Second); ; {
		out, _ := m.try("systemctl", "is-system-running")
		if state := strings.TrimSpace(out); state == "running" || state == "degraded" {
			return m
		}
		select {
		case err := <-ended:
			ended <- err
			t.Skipf("systemd cannot run here: %v\n%s", err, said.String())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("systemd did not start: %s\n%s", out, said.String())
		}
	}
}

// removeGroup removes the empty control groups of a system that has ended.
func removeGroup(t *testing.T, group string) {
	t.Helper()
	script := `d=$(mktemp -d); mount -t cgroup2 cgroup2 "$d" && find "$d/$1" -depth -type d -exec rmdir {} +; umount "$d"; rmdir "$d"`
	cmd := exec.Command("sh", "-c", script, "sh", group) // the context of a test ends before its clean-up
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	_ = cmd.Run() // what is left is empty
}

// try runs a command on the system and returns what it printed.
func (m *machine) try(argv ...string) (string, error) {
	args := append([]string{
		"-t", strconv.Itoa(m.pid), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
	}, argv...)
	out, err := exec.CommandContext(m.t.Context(), "nsenter", args...).CombinedOutput()
	return string(out), err
}

// run is try for a command that must succeed.
func (m *machine) run(argv ...string) string {
	m.t.Helper()
	out, err := m.try(argv...)
	if err != nil {
		log, _ := m.try("journalctl", "-u", "claudeops", "--no-pager", "-n", "40")
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(argv, " "), err, out, log)
	}
	return out
}

// write puts a file onto the system.
func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	at := filepath.Join(m.root, path)
	err := os.MkdirAll(filepath.Dir(at), 0o755) //nolint:gosec // as in any system
	if err == nil {
		err = errors.Join(os.WriteFile(at, []byte(text), mode), os.Chmod(at, mode))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// put copies a file onto the system.
func (m *machine) put(from, to string) {
	m.t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(to, string(raw), 0o644)
}

// has reports whether a path exists on the system.
func (m *machine) has(path string) bool {
	_, err := os.Lstat(filepath.Join(m.root, path))
	return err == nil
}

func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q:\n%s", what, part, text)
		}
	}
}
