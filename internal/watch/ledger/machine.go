package ledger

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/ops"
)

const (
	maxFile      = 1 << 20 // of a file that is read
	maxRepos     = 50
	namedInTexts = 6 // packages that are named; the rest is counted
)

// program runs a program that only reads, with nothing of the supervisor's environment but where programs are.
func program(ctx context.Context, env []string, argv ...string) ([]byte, error) {
	//nolint:gosec // the programs are fixed, and what their arguments name is only read
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = append(env, "PATH="+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC") //nolint:forbidigo // where programs are
	c.WaitDelay = 100 * time.Millisecond
	var stderr bytes.Buffer
	c.Stderr = &stderr
	text, err := c.Output()
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("run %s: %w: %s", filepath.Base(argv[0]), err, first)
	}
	return text[:min(len(text), maxFile)], nil
}

// tail reads the end of a file.
func tail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxFile), maxFile))
}

// Units looks at the units of services: their files, their drop-ins, and when they were started.
type Units struct{ Systemctl string }

// Kind is what it looks at.
func (Units) Kind() ops.ChangeKind { return ops.ChangeUnit }

// Look asks systemd, and reads the files that it names.
func (u Units) Look(ctx context.Context, env ops.Environment, _ map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	owners := map[string]string{}
	var names []string
	add := func(unit, service string) {
		if unit != "" && owners[unit] == "" {
			owners[unit] = service
			names = append(names, unit)
		}
	}
	for _, s := range env.Policy.Inventory.Services {
		add(s.Unit, s.Name)
	}
	for _, p := range env.Probes {
		add(p.Unit, p.Service)
	}
	if len(names) == 0 {
		return nil, nil, nil
	}
	var out []ops.Resource
	for _, name := range names {
		text, err := program(ctx, nil, u.Systemctl, "show", "--property=FragmentPath,DropInPaths,ActiveState,NRestarts,ExecMainStartTimestamp,"+
			"StateChangeTimestamp", "--", name)
		if err != nil {
			out = append(out, ops.Resource{Subject: name, Unseen: err.Error()})
			continue
		}
		out = append(out, unit(name, owners[name], text))
	}
	return out, nil, nil
}

func unit(name, service string, text []byte) ops.Resource {
	says := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		says[key] = value
	}
	t := ops.Resource{Subject: name, Service: service}
	for _, path := range append([]string{says["FragmentPath"]}, strings.Fields(says["DropInPaths"])...) {
		if path == "" {
			continue
		}
		content, err := tail(path)
		if err != nil {
			return ops.Resource{Subject: name, Unseen: err.Error()}
		}
		t.Parts = append(t.Parts, ops.Part{Name: path, Value: digestOf(content)})
	}
	t.Parts = append(t.Parts, ops.Part{Name: "state", Value: says["ActiveState"]}, ops.Part{Name: "restarts", Value: says["NRestarts"]},
		ops.Part{Name: partStarted, Value: says["ExecMainStartTimestamp"]})
	for _, key := range []string{"ExecMainStartTimestamp", "StateChangeTimestamp"} {
		if at, err := time.Parse("Mon 2006-01-02 15:04:05 MST", says[key]); err == nil && at.After(t.At) {
			t.At = at
		}
	}
	return t
}

// Packages reads the log of dpkg. Other package managers are not read.
type Packages struct{ Log string }

// Kind is what it looks at.
func (Packages) Kind() ops.ChangeKind { return ops.ChangePackage }

const dpkgTime = "2006-01-02 15:04:05"

// Look reads what was logged since the last look.
func (p Packages) Look(_ context.Context, _ ops.Environment, before map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	was, known := before["dpkg"]
	last := was.Part(quiet)
	if info, err := os.Stat(p.Log); err == nil && known && info.ModTime().Format(dpkgTime) <= last {
		return []ops.Resource{was}, nil, nil
	}
	text, err := tail(p.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: only the log of dpkg is read", err)
	}
	if older, err := tail(p.Log + ".1"); err == nil { // rotated since the last look, perhaps
		text = append(append(older, '\n'), text...)
	}
	now := time.Now().Format(dpkgTime) // the log has local times; this second is not over yet
	newest := last
	done := map[string][]string{}
	when := map[string]string{}
	for line := range strings.Lines(string(text)) {
		at := line[:min(len(line), len(dpkgTime))]
		if at <= last || at >= now {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		if newest = max(newest, at); !known {
			continue
		}
		name, _, _ := strings.Cut(f[3], ":")
		switch f[2] {
		case "install":
			done["installed"] = append(done["installed"], name+" "+f[5])
			when["installed"] = at
		case "upgrade":
			done["upgraded"] = append(done["upgraded"], name+" "+f[4]+" → "+f[5])
			when["upgraded"] = at
		case "remove", "purge":
			done["removed"] = append(done["removed"], name)
			when["removed"] = at
		}
	}
	var changes []ops.Change
	for _, verb := range []string{"installed", "upgraded", "removed"} {
		names := slices.Compact(done[verb])
		if len(names) == 0 {
			continue
		}
		said := strings.Join(names[:min(len(names), namedInTexts)], ", ")
		if more := len(names) - namedInTexts; more > 0 {
			said += fmt.Sprintf(" and %d more", more)
		}
		at, _ := time.ParseInLocation(dpkgTime, when[verb], time.Local) // as dpkg writes it; a wrong one is the time of this look
		changes = append(changes, ops.Change{Kind: ops.ChangePackage, Subject: "dpkg", Text: verb + " " + said, At: at})
	}
	return []ops.Resource{{Subject: "dpkg", Parts: []ops.Part{{Name: quiet, Value: newest}}}}, changes, nil
}

// Repositories looks at the heads of the clones.
type Repositories struct{}

// Kind is what it looks at.
func (Repositories) Kind() ops.ChangeKind { return ops.ChangeRepository }

// Look reads the head of every clone, and the commits since the last look.
func (Repositories) Look(ctx context.Context, env ops.Environment, before map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	if env.ReposDir == "" {
		return nil, nil, nil
	}
	entries, err := os.ReadDir(env.ReposDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // without the folder there are no clones
		return nil, nil, err
	}
	var out []ops.Resource
	var changes []ops.Change
	for _, e := range entries {
		dir := filepath.Join(env.ReposDir, e.Name())
		if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil || !e.IsDir() {
			continue
		}
		if len(out) == maxRepos {
			return out, changes, fmt.Errorf("only %d clones are looked at", maxRepos)
		}
		head, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "HEAD")
		if err != nil {
			out = append(out, ops.Resource{Subject: e.Name(), Unseen: err.Error()})
			continue
		}
		now := strings.TrimSpace(head)
		out = append(out, ops.Resource{Subject: e.Name(), Parts: []ops.Part{{Name: quiet, Value: now}}})
		was := before[e.Name()].Part(quiet)
		if was == "" || was == now {
			continue
		}
		text := fmt.Sprintf("head %.7s → %.7s", was, now)
		if said, err := git(ctx, dir, "log", "-n", "3", "--no-color", "--format=%s", was+".."+now); err == nil && said != "" {
			text += ": " + strings.Join(strings.Split(strings.TrimSpace(said), "\n"), "; ")
		}
		at := moved(dir)
		changes = append(changes, ops.Change{Kind: ops.ChangeRepository, Subject: e.Name(), Text: text, At: at})
	}
	return out, changes, nil
}

// git asks about a clone. Its settings come from people and agents, so nothing in them is run.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	text, err := program(ctx, []string{
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
	}, append([]string{
		"git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "log.showSignature=false",
		"--no-pager", "-C", dir,
	}, args...)...)
	return string(text), err
}

// moved is when the head of a clone last moved, or zero: the last line of its log says so.
func moved(dir string) time.Time {
	text, err := tail(filepath.Join(dir, ".git", "logs", "HEAD"))
	if err != nil {
		return time.Time{}
	}
	text = bytes.TrimSpace(text)
	who, _, _ := strings.Cut(string(text[bytes.LastIndexByte(text, '\n')+1:]), "\t")
	f := strings.Fields(who)
	if len(f) < 2 {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(f[len(f)-2], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// Disks looks at how full the mounts are, in coarse steps: only what matters is a change.
type Disks struct {
	Mounts string // mountinfo of proc(5)
	Used   func(path string) (percent float64, err error)
}

// Kind is what it looks at.
func (Disks) Kind() ops.ChangeKind { return ops.ChangeDisk }

// steps are the percentages at which a disk gets another state.
func steps() []float64 { return []float64{80, 90, 95, 98, 99.5} }

// calm is by how much it must fall below a step to be below it again.
const calm = 2

// Look reads the mounts of local file systems. A remote one may never answer.
func (d Disks) Look(_ context.Context, _ ops.Environment, before map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	text, err := tail(d.Mounts)
	if err != nil {
		return nil, nil, err
	}
	var out []ops.Resource
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		dash := slices.Index(f, "-")
		if len(f) < 6 || dash < 0 || len(f) < dash+3 || seen[f[2]] {
			continue
		}
		path, kind, source := strings.ReplaceAll(f[4], `\040`, " "), f[dash+1], f[dash+2]
		local := strings.HasPrefix(source, "/dev/") && !strings.HasPrefix(kind, "fuse") || kind == "zfs" || kind == "btrfs" ||
			kind == "overlay" && path == "/" || kind == "tmpfs" && lasting(path)
		if !local || kind == "squashfs" || kind == "iso9660" {
			continue
		}
		seen[f[2]] = true
		used, err := d.Used(path)
		if err != nil {
			out = append(out, ops.Resource{Subject: path, Unseen: err.Error()})
			continue
		}
		out = append(out, ops.Resource{Subject: path, Parts: []ops.Part{{Name: "use", Value: bucket(used, before[path].Part("use"))}}})
	}
	return out, nil, lines.Err()
}

// lasting reports whether a file system in memory is part of the machine. Those of logins, containers and devices come and go.
func lasting(path string) bool {
	passing := []string{"/run/", "/dev/", "/sys/", "/proc/", "/var/lib/"}
	return !slices.ContainsFunc(passing, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// bucket is the coarse state of a disk. One that is only just below a step keeps its state.
func bucket(used float64, was string) string {
	name := func(step float64) string { return fmt.Sprintf("%g %% or more", step) }
	out := "below 80 %"
	for _, step := range steps() {
		if used >= step || was == name(step) && used >= step-calm {
			out = name(step)
		}
	}
	return out
}

// Used is how full a file system is in percent: its space or its inodes, whichever is worse.
func Used(path string) (float64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	part := func(all, free uint64) float64 {
		if all == 0 {
			return 0
		}
		return 100 * (1 - float64(free)/float64(all))
	}
	taken := s.Blocks - s.Bfree // what only root may still use counts as full, as df shows it
	return math.Max(part(taken+uint64(s.Bavail), uint64(s.Bavail)), part(s.Files, s.Ffree)), nil
}

// Boot looks at when the machine was started, and with which kernel.
type Boot struct{ Proc string }

// Kind is what it looks at.
func (Boot) Kind() ops.ChangeKind { return ops.ChangeBoot }

// Look reads the id of this start.
func (b Boot) Look(_ context.Context, _ ops.Environment, before map[string]ops.Resource) ([]ops.Resource, []ops.Change, error) {
	id, err := tail(filepath.Join(b.Proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return nil, nil, err
	}
	kernel, err := tail(filepath.Join(b.Proc, "sys/kernel/osrelease"))
	if err != nil {
		return nil, nil, err
	}
	var at time.Time
	if stat, err := tail(filepath.Join(b.Proc, "stat")); err == nil {
		for line := range strings.Lines(string(stat)) {
			if text, ok := strings.CutPrefix(line, "btime "); ok {
				if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
					at = time.Unix(seconds, 0)
				}
			}
		}
	}
	return []ops.Resource{{Subject: "boot", At: at, Parts: []ops.Part{
		{Name: partStarted, Value: strings.TrimSpace(string(id))}, {Name: "kernel", Value: strings.TrimSpace(string(kernel))},
	}}}, nil, nil
}
