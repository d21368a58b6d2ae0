package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
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
	diskSize    = 48 << 20
	diskReserve = 16 // megabytes
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
		more: fmt.Sprintf("host: {disk_reserve: %d}\n", diskReserve),
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
		more: fmt.Sprintf("observe: agent\nhost: {disk_reserve: %d}\nlimits: {session: %s}\n", diskReserve, limit),
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
