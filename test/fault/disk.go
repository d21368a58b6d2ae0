package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// troubled marks what every page says while no session is started.
const troubled = `class="flash trouble"`

// ext4 is a file system of its own, in a file. When it finds an error it becomes read-only under everybody who writes to it, as most
// root file systems do. That cannot be had by a remount, which the kernel refuses while files are open for writing.
type ext4 struct {
	image, dir string
	device     string // its name below /sys/fs/ext4
}

func command(ctx context.Context, argv ...string) error {
	if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil { //nolint:gosec // commands of the trials
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, out)
	}
	return nil
}

func newExt4(ctx context.Context) (*ext4, error) {
	dir, err := os.MkdirTemp("", "fault-ext4-")
	if err != nil {
		return nil, err
	}
	f := &ext4{image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "disk")}
	err = errors.Join(os.Mkdir(f.dir, 0o700), os.WriteFile(f.image, nil, 0o600), os.Truncate(f.image, 96<<20))
	if err == nil {
		err = command(ctx, "/sbin/mkfs.ext4", "-q", "-F", f.image)
	}
	if err == nil {
		err = f.mount(ctx)
	}
	if err != nil {
		f.remove()
		return nil, fmt.Errorf("mount an ext4 of its own (needs root and loop devices): %w", err)
	}
	return f, nil
}

func (f *ext4) mount(ctx context.Context) error {
	if err := command(ctx, "mount", "-o", "loop,errors=remount-ro", f.image, f.dir); err != nil {
		return err
	}
	raw, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		if words := strings.Fields(line); words[1] == f.dir {
			f.device = filepath.Base(words[0])
		}
	}
	return nil
}

// fail lets the file system find an error.
func (f *ext4) fail() error {
	return os.WriteFile(filepath.Join("/sys/fs/ext4", f.device, "trigger_fs_error"), []byte("fault"), 0)
}

// repair does what an operator does: check, mount again. Nothing may be open on it.
func (f *ext4) repair(ctx context.Context) error {
	if err := command(ctx, "umount", f.dir); err != nil {
		return err
	}
	err := exec.CommandContext(ctx, "/sbin/e2fsck", "-fy", f.image).Run() //nolint:gosec // of the trial
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 2) {
		return fmt.Errorf("check file system: %w", err)
	}
	return f.mount(ctx)
}

func (f *ext4) remove() {
	_ = unix.Unmount(f.dir, unix.MNT_DETACH)
	_ = os.RemoveAll(filepath.Dir(f.dir))
}

// readOnly lets the file system of the state folder become read-only in the middle of Tier 2. Nothing may be done that cannot be recorded,
// and everybody who asks is told why. After the repair the chain continues.
func (t *trying) readOnly(ctx context.Context, ladder bool) error {
	disk := must(newExt4(ctx))
	defer disk.remove()
	b := t.box(ctx, setup{
		ladder: ladder, scenario: slowChain(4 * time.Second), state: filepath.Join(disk.dir, "state"),
	})
	b.refusals = true // what cannot be recorded is not allowed
	p := t.inTier2Of(ctx, b)
	check(disk.fail())
	failed, acted := time.Now(), len(b.service.done())
	if err := p.within(15*time.Second, "it is not ready, and says why", func() bool {
		code, body := p.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "read-only")
	}); err != nil {
		_, body := p.get("/readyz")
		return fmt.Errorf("%w\nreadyz: %.500s", err, body)
	}
	noticed := time.Since(failed)
	check(p.until("no agent runs", func() bool { return len(b.sessionKeys()) == 0 }))
	gone := time.Since(failed)
	for time.Since(failed) < 25*time.Second {
		if code, body := p.get("/"); code != http.StatusOK || !strings.Contains(body, troubled) {
			return fmt.Errorf("the first page answers %d without the reason: %.300s", code, body)
		}
		if code, body := p.submit("{}"); code != http.StatusServiceUnavailable {
			return fmt.Errorf("submitting answers %d: %.300s", code, body)
		}
		if len(b.sessionKeys()) > 0 {
			return errors.New("an agent was started on a read-only file system")
		}
		<-time.After(200 * time.Millisecond)
	}
	if done := b.service.done(); len(done) > acted {
		return fmt.Errorf("%s was done although nothing could be recorded", done[acted].verb)
	}
	p.signal(syscall.SIGTERM)
	check(p.wait())
	// A start on it says what is wrong, instead of running without a memory.
	again := t.start(ctx, b, modeServe)
	check(again.wait())
	if again.code() == 0 || !strings.Contains(again.out.String(), "read-only") {
		return fmt.Errorf("a start on a read-only file system exits %d:\n%s", again.code(), again.out.tail())
	}
	check(disk.repair(ctx))
	t.recovery = must(b.runToEnd(ctx, modeServe))
	t.found = fmt.Sprintf("noticed after %s, agents gone after %s; %s after the start with the repaired file system the chain had ended: %s",
		noticed.Round(10*time.Millisecond), gone.Round(10*time.Millisecond), t.recovery.Round(10*time.Millisecond), b.summary(ctx))
	return b.verdict(ctx, ladder)
}
