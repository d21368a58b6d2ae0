package cycle

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestUnsafeThingsAreRefusedAtOnceAndDeleted(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, report.HandoffExample(ops.Tier1))
	cases := []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"link to a file", func(t *testing.T, path string) { check(t, os.Symlink(secret, path)) }, "a symbolic link"},
		{"link to nothing", func(t *testing.T, path string) { check(t, os.Symlink("/nonexistent", path)) }, "a symbolic link"},
		{"link to itself", func(t *testing.T, path string) { check(t, os.Symlink(handoffName, path)) }, "a symbolic link"},
		{"link beneath the folder", func(t *testing.T, path string) {
			write(t, filepath.Join(filepath.Dir(path), "other"), "{}")
			check(t, os.Symlink("other", path))
		}, "a symbolic link"},
		{"link to proc", func(t *testing.T, path string) { check(t, os.Symlink("/proc/self/environ", path)) }, "a symbolic link"},
		{"pipe", func(t *testing.T, path string) { check(t, unix.Mkfifo(path, 0o600)) }, "a pipe"},
		{"folder", func(t *testing.T, path string) {
			check(t, os.MkdirAll(filepath.Join(path, "a", "b"), 0o700))
			check(t, os.Symlink(filepath.Dir(secret), filepath.Join(path, "a", "out")))
		}, "a folder"},
		{"device", func(t *testing.T, path string) {
			if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil { // /dev/zero
				t.Skipf("making a device needs root: %v", err)
			}
		}, "a device"},
		{"socket", func(t *testing.T, path string) {
			t.Chdir(filepath.Dir(path)) // the name of a socket must be short
			ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", handoffName)
			check(t, err)
			t.Cleanup(func() { _ = ln.Close() })
		}, "a socket"},
		{"hard link", func(t *testing.T, path string) {
			other := filepath.Join(filepath.Dir(path), "other")
			write(t, other, report.HandoffExample(ops.Tier1))
			check(t, os.Link(other, path))
		}, "a file with a second name (hard link)"},
		{"too large", func(t *testing.T, path string) { write(t, path, strings.Repeat(" ", report.MaxBytes+1)) }, "larger than 256 KiB"},
		{"a sparse terabyte", func(t *testing.T, path string) {
			write(t, path, "")
			check(t, os.Truncate(path, 1<<40))
		}, "larger than 256 KiB"},
		{"another user's", func(t *testing.T, path string) {
			write(t, path, report.HandoffExample(ops.Tier1))
			if err := os.Chown(path, 4711, -1); err != nil {
				t.Skipf("giving a file away needs root: %v", err)
			}
		}, "owned by another user (4711)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, filepath.Join(dir, handoffName))
			start := time.Now()
			raw, present, err := HandoffFiles{}.Read(dir)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %s", took)
			}
			var refused *refusedFile
			if !errors.As(err, &refused) || refused.Why != c.want || refused.Path != filepath.Join(dir, handoffName) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if raw != nil || !present {
				t.Errorf("raw %q, present %v", raw, present)
			}
			if err := (HandoffFiles{}).Delete(dir); err != nil || exists(t, filepath.Join(dir, handoffName)) {
				t.Errorf("delete: %v", err)
			}
		})
	}
	if !exists(t, secret) {
		t.Error("delete followed a link")
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheLargestAllowedFileIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, handoffName), strings.Repeat(" ", report.MaxBytes))
	if raw, present, err := (HandoffFiles{}).Read(dir); len(raw) != report.MaxBytes || !present || err != nil {
		t.Errorf("%d bytes, %v, %v", len(raw), present, err)
	}
}

func TestTheStateFolderItselfMayBeReachedThroughALink(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, handoffName), "{}")
	link := filepath.Join(t.TempDir(), "state")
	check(t, os.Symlink(dir, link))
	if raw, _, err := (HandoffFiles{}).Read(link); string(raw) != "{}" || err != nil {
		t.Errorf("read: %q, %v", raw, err)
	}
	if err := (HandoffFiles{}).Delete(link); err != nil || exists(t, filepath.Join(dir, handoffName)) {
		t.Errorf("delete: %v", err)
	}
}

func TestAMissingStateFolderIsAnErrorOnlyForReading(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if _, present, err := (HandoffFiles{}).Read(dir); present || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("read: %v, %v", present, err)
	}
	if err := (HandoffFiles{}).Delete(dir); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A link can appear between the look and the opening, which must refuse it itself.
func TestOpeningFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Symlink("/etc/hostname", filepath.Join(dir, handoffName)))
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	defer func() { _ = unix.Close(folder) }()
	if fd, err := openHandoff(folder, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK); !errors.Is(err, unix.ELOOP) {
		t.Errorf("fd %d, %v", fd, err)
	}
}

// A pipe can take the file's place between the look and the opening as well.
func TestWhatWasReallyOpenedIsJudged(t *testing.T) {
	path := filepath.Join(t.TempDir(), handoffName)
	check(t, unix.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	check(t, err)
	defer func() { _ = file.Close() }()
	var refused *refusedFile
	if _, _, err := readOpenHandoff(file); !errors.As(err, &refused) || refused.Why != "a pipe" {
		t.Errorf("got %v", err)
	}
}

// lockedFolder tells this test binary, started again as an ordinary user, which state folder to clean.
const lockedFolder = "HANDOFFFILE_TEST_LOCKED_FOLDER"

func TestALockedFolderIsDeletedToo(t *testing.T) {
	if dir := os.Getenv(lockedFolder); dir != "" { //nolint:forbidigo // set by this very test
		lock(t, dir)
		if err := (HandoffFiles{}).Delete(dir); err != nil {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		lock(t, dir)
		check(t, HandoffFiles{}.Delete(dir))
		return
	}
	// Locks do not hold root, so an ordinary user has to try.
	self, err := os.Executable()
	check(t, err)
	shared, err := os.MkdirTemp("/tmp", "handofffile-test-") //nolint:usetesting // t.TempDir is closed to other users
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	check(t, os.Chown(shared, 65534, 65534))
	binary := filepath.Join(shared, "test")
	raw, err := os.ReadFile(self)
	check(t, err)
	check(t, os.WriteFile(binary, raw, 0o755))
	state := filepath.Join(shared, "state")
	check(t, os.Mkdir(state, 0o700))
	check(t, os.Chown(state, 65534, 65534))
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestALockedFolderIsDeletedToo$")
	cmd.Dir, cmd.Env = shared, []string{lockedFolder + "=" + state, "TMPDIR=" + shared}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if exists(t, filepath.Join(state, handoffName)) {
		t.Error("still there")
	}
}

func lock(t *testing.T, dir string) {
	t.Helper()
	inner := filepath.Join(dir, handoffName, "inner")
	check(t, os.MkdirAll(inner, 0o700))
	write(t, filepath.Join(inner, "file"), "x")
	check(t, os.Chmod(inner, 0))
	check(t, os.Chmod(filepath.Dir(inner), 0o500))
}
