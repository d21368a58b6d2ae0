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

	"claudeops/internal/ops"
)

// troubled marks what every page says while no session is started.
const troubled = `class="flash trouble"`

const (
	diskSize    = 160 << 20
	diskReserve = 64 // megabytes that must be free for a session to start
)

// smallDisk mounts a file system of its own in the folder.
func smallDisk(dir string) (unmount func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize)); err != nil {
		return nil, fmt.Errorf("mount a small disk (needs root): %w", err)
	}
	return func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }, nil
}

// fill takes room on the disk until so much is left.
func fill(dir string, left int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("fill disk: %w", err)
	}
	_, err = f.Write(make([]byte, max(0, int64(st.Bavail)*st.Bsize-left)))
	if left == 0 && errors.Is(err, unix.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// diskFull lets the disk run full in the middle of Tier 2: first below the reserve, then to the last byte.
func (t *trying) diskFull(ctx context.Context, ladder bool) error {
	disk := must(os.MkdirTemp("", "fault-disk-"))
	defer func() { _ = os.Remove(disk) }()
	unmount := must(smallDisk(disk))
	defer unmount()
	b := t.box(ctx, setup{
		ladder: ladder, scenario: slowChain(2 * time.Second), state: filepath.Join(disk, "state"),
	})
	p := t.inTier2Of(ctx, b)
	for _, left := range []int64{4 << 20, 0} {
		check(fill(disk, left))
		if err := b.refused(ctx, p, 8*time.Second); err != nil {
			return fmt.Errorf("with %d MB left: %w", left>>20, err)
		}
	}
	check(os.Remove(filepath.Join(disk, "filler")))
	check(p.until("no page says that the disk is full", func() bool {
		code, body := p.get("/")
		return code == http.StatusOK && !strings.Contains(body, troubled)
	}))
	return t.goesOn(ctx, b, p, "there was room again")
}

// refused looks for so long: pages answer and say why, nothing is done to the service, and no session starts.
func (b *box) refused(ctx context.Context, p *process, length time.Duration) error {
	acted := len(b.service.done())
	if err := p.until("the page says that the disk is full", func() bool {
		code, body := p.get("/")
		return code == http.StatusOK && strings.Contains(body, troubled) && strings.Contains(body, "MB are free")
	}); err != nil {
		return err
	}
	if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "disk is nearly full") {
		return fmt.Errorf("/readyz answers %d: %.300s", code, body)
	}
	// What was running may still end.
	if err := p.until("no session runs", func() bool { return len(b.agents(ops.Tier2)) == 0 }); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < length; <-time.After(200 * time.Millisecond) {
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			if found := b.agents(tier); len(found) > 0 {
				return fmt.Errorf("an agent of %s was started on a full disk", tier)
			}
		}
		if code, body := p.get("/sessions"); code != http.StatusOK {
			return fmt.Errorf("a page answers %d on a full disk: %.300s", code, body)
		}
	}
	if done := b.service.done(); len(done) > acted {
		return fmt.Errorf("%s was done on a full disk", done[acted].verb)
	}
	return ctx.Err()
}

// endless is a session that does not end.
const endless = `name: endless
tiers:
  1:
    cost_usd: 0.01
    steps: [{say: I wait.}, {pause: 300s}]
    outcome: {schema_version: 1, outcome: healthy, summary: all is well, check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}
    result: All is well.
`

// limitsOnFullDisk fills the disk to the last byte while a session runs. Its own limit must still end it, and the program recovers.
func (t *trying) limitsOnFullDisk(ctx context.Context) error {
	const limit = 8 * time.Second
	disk := must(os.MkdirTemp("", "fault-disk-"))
	defer func() { _ = os.Remove(disk) }()
	unmount := must(smallDisk(disk))
	defer unmount()
	b := t.box(ctx, setup{
		scenario: endless, state: filepath.Join(disk, "state"),
		more: fmt.Sprintf("observe: agent\nlimits: {session: %s}\n", limit),
	})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	check(p.until("Tier 1 waits", func() bool {
		lines, err := b.transcript(ctx, 1)
		return err == nil && strings.Contains(fmt.Sprint(lines), "I wait.")
	}))
	begun := time.Now()
	for begun := time.Now(); time.Since(begun) < 2*time.Second; <-time.After(100 * time.Millisecond) {
		check(fill(disk, 0))
	}
	check(p.within(limit+20*time.Second, "the limit ends the session", func() bool { return len(b.agents(ops.Tier1)) == 0 }))
	took := time.Since(begun)
	if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("/readyz answers %d: %.300s", code, body)
	}
	check(os.Remove(filepath.Join(disk, "filler")))
	freed := time.Now()
	check(p.until("it is ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK }))
	t.recovery = time.Since(freed)
	t.found = fmt.Sprintf("a session with a limit of %s ended %s after the disk was full; ready %s after there was room: %s", limit,
		took.Round(10*time.Millisecond), t.recovery.Round(10*time.Millisecond), b.summary(ctx))
	if took < limit/2 {
		return fmt.Errorf("something else ended the session: %s", t.found)
	}
	p.signal(syscall.SIGTERM)
	return p.wait()
}

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
