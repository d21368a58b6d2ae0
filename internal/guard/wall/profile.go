package wall

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
)

// access is what a mount of the profile lets an agent do below its path.
type access int

const (
	hidden    access = iota // read-only and empty but for a notice that says so
	readOnly                // the host's, to look at
	readWrite               // the host's
	link                    // to where it comes from
)

// profile is the mounts of one tier, by real path.
type profile struct {
	mounts map[string]access
	from   map[string]string // what is mounted at a path, where it is not the path itself
	loose  map[string]bool   // what may be gone by the time it is mounted
	usual  map[string]bool   // what is only closed because nothing opens it: any other mount takes its place
	shown  []string          // folders that are only open because the program lies there
	notice string            // the file that covers what is hidden
}

// profile builds the arguments of bubblewrap up to the command.
func (s *Sandbox) profile(tier ops.Tier, session Session, program, dir string) ([]string, error) {
	p := &profile{
		mounts: make(map[string]access), from: make(map[string]string), loose: make(map[string]bool),
		usual: make(map[string]bool), notice: s.notice(),
	}
	if err := s.fill(p, session.tier(tier)); err != nil {
		return nil, err
	}
	if err := s.fillSession(p, tier, session); err != nil {
		return nil, err
	}
	if err := p.show(program, session.Needs); err != nil {
		return nil, err
	}
	for _, path := range s.foreign(session, socketsIn(p.shown)) {
		if err := p.hide(path); err != nil {
			return nil, err
		}
	}
	if len(s.c.Relay) > 0 {
		p.offer(s.c.Relay[0])
	}
	if session.Shells {
		if err := s.fillShells(p, tier, session); err != nil {
			return nil, err
		}
	}
	state, err := realPath(s.c.StateDir)
	if err != nil {
		return nil, fmt.Errorf("find state folder: %w", err)
	}
	exchanges := s.c.Confine && isFolder(s.exchange())
	if exchanges {
		// The agent sees the exchange folder in place of the state folder: a CLI that writes a file beside its handoff and renames it
		// can do so there.
		p.mounts[state], p.from[state] = readWrite, s.exchange()
	}
	if err := s.fillNetwork(p, session.Net); err != nil {
		return nil, err
	}
	args := slices.Concat(s.base(), session.Net.arguments(), p.arguments())
	if !exchanges {
		args = append(args, "--symlink", filepath.Join(agentFolder, exchangeFolder, handoffName), filepath.Join(state, handoffName))
	}
	args = append(args, p.closing()...)
	if dir != "" {
		if dir, err = realPath(dir); err != nil {
			return nil, fmt.Errorf("find working folder: %w", err)
		}
		args = append(args, "--chdir", dir)
	}
	return args, nil
}

// base is what the sandboxes of all tiers have in common. The pid namespace ends everything that a session started, and keeps signals in.
// The processes of the machine stay visible, unless nothing else keeps a session from what /proc tells of the supervisor.
func (s *Sandbox) base() []string {
	args := []string{
		"--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--dev", "/dev",
	}
	if confine.LandlockVersion() < confine.ScopedVersion {
		// A new /proc shows the kernel's settings writable to root, even to one without capabilities.
		args = append(args, "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
	}
	return args
}

// fill puts the mounts of a tier together.
func (s *Sandbox) fill(p *profile, tier ops.Tier) error {
	p.close()
	if s.c.ReposDir != "" {
		kind := readOnly
		if tier >= ops.Tier2 {
			kind = readWrite
		}
		if err := p.optional(s.c.ReposDir, kind); err != nil {
			return err
		}
	}
	for _, path := range s.declared() { // what lies in the repositories has no mount of its own: a session may change it there
		p.offer(path)
	}
	hides := []string{s.c.RootDir}
	if s.c.UIDs[tier] == 0 { // another user may not be able to get there, and file permissions hold it
		hides = append(hides, s.c.Hidden...)
	}
	for _, path := range hides {
		if err := p.optional(path, hidden); err != nil {
			return err
		}
	}
	if err := p.optional(filepath.Join(s.c.StateDir, cooldownName), readOnly); err != nil {
		return err
	}
	if err := p.grant(filepath.Join(s.c.StateDir, agentFolder), readOnly); err != nil {
		return err
	}
	if s.c.Programs != "" {
		if err := p.optional(s.c.Programs, readOnly); err != nil {
			return err
		}
	}
	for _, path := range s.c.ExtraReadOnly {
		if err := p.grant(path, readOnly); err != nil {
			return err
		}
	}
	for _, path := range s.grants() {
		if err := s.unlessRepository(tier, path); err != nil {
			return err
		}
		if err := p.grant(path, readWrite); err != nil {
			return err
		}
	}
	return nil
}

// unlessRepository refuses a writable folder in the repositories of a tier that may only look at them.
func (s *Sandbox) unlessRepository(tier ops.Tier, path string) error {
	if s.c.ReposDir == "" || tier >= ops.Tier2 {
		return nil
	}
	repos, err := realPath(s.c.ReposDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	at, err2 := realPath(path)
	if errors.Is(err2, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if inside(at, repos) {
		return &LayerError{
			Layer: LayerBubblewrap, Why: fmt.Sprintf("%s lies in the repositories, which %s must not write to", path, tier),
			Fix: "choose a folder outside of " + s.c.ReposDir,
		}
	}
	return nil
}

// optional adds a mount over something that need not be there.
func (p *profile) optional(path string, kind access) error {
	at, err := realPath(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, taken := p.mounts[at]; !taken {
		p.loose[at] = true
	}
	return p.add(at, kind)
}

// grant adds a mount of something that has to be there.
func (p *profile) grant(path string, kind access) error {
	at, err := realPath(path)
	if err != nil {
		return &LayerError{
			Layer: LayerBubblewrap, Why: fmt.Sprintf("%s cannot be passed in: %v", path, err),
			Fix: "make the folder, or take it out of the settings",
		}
	}
	delete(p.loose, at)
	return p.add(at, kind)
}

func (p *profile) add(at string, kind access) error {
	if at == "/" {
		return &LayerError{Layer: LayerBubblewrap, Why: "the whole file system is named as a folder", Fix: "name a folder below /"}
	}
	if before, ok := p.mounts[at]; ok && before != kind && !p.usual[at] {
		return &LayerError{
			Layer: LayerBubblewrap, Why: fmt.Sprintf("%s is to be both %s and %s", at, before, kind), Fix: "give the two folders different places",
		}
	}
	p.mounts[at] = kind
	delete(p.usual, at)
	return nil
}

// show makes the program visible when it lies in a folder that is not.
func (p *profile) show(program string, needs []string) error {
	if program == "" {
		return nil
	}
	if _, err := realPath(program); err != nil {
		return fmt.Errorf("find program: %w", err)
	}
	places, links := programPlaces(append([]string{program}, needs...))
	for at, from := range places {
		if _, taken := p.mounts[at]; (!taken || p.usual[at]) && p.invisible(at) {
			p.mounts[at], p.from[at] = readOnly, from
			p.shown = append(p.shown, at)
		}
	}
	for at, to := range links {
		if _, taken := p.mounts[at]; !taken && p.invisible(at) {
			p.mounts[at], p.from[at] = link, to
		}
	}
	return nil
}

// invisible reports whether nothing at a path, or above it, shows it.
func (p *profile) invisible(at string) bool {
	for dir := at; dir != "/"; dir = filepath.Dir(dir) {
		if kind, ok := p.mounts[dir]; ok {
			return kind == hidden
		}
	}
	return false
}

// needless reports a mount that hides something in what is empty already.
func (p *profile) needless(at string) bool {
	if p.mounts[at] != hidden {
		return false
	}
	for dir := filepath.Dir(at); dir != "/"; dir = filepath.Dir(dir) {
		if kind, ok := p.mounts[dir]; ok {
			return kind == hidden
		}
	}
	return false
}

// arguments are the mounts, each folder before what lies in it, so that the innermost decides.
func (p *profile) arguments() []string {
	var out []string
	for _, at := range p.paths() {
		try := ""
		if p.loose[at] && p.from[at] == "" {
			try = "-try"
		}
		switch kind := p.mounts[at]; {
		case kind == link:
			out = append(out, "--symlink", p.from[at], at)
		case kind == readOnly:
			out = append(out, "--ro-bind"+try, cmp.Or(p.from[at], at), at)
		case kind == readWrite:
			out = append(out, "--bind"+try, cmp.Or(p.from[at], at), at)
		case !isFolder(at):
			out = append(out, "--ro-bind", p.notice, at)
		case p.roomy(at):
			out = append(out, "--tmpfs", at, "--ro-bind", p.notice, filepath.Join(at, relay.Notice))
		default: // half the mounts
			out = append(out, "--ro-bind", filepath.Dir(p.notice), at)
		}
	}
	return out
}

// roomy reports whether a hidden folder takes one of its own, in which bubblewrap can make what is mounted in it. Any other one is covered
// by the folder of the notice, which all sessions see.
func (p *profile) roomy(at string) bool {
	for other, kind := range p.mounts {
		if kind != hidden && strings.HasPrefix(other, at+"/") {
			return true
		}
	}
	return p.notice == os.DevNull
}

// closing makes the hidden folders read-only, once everything that lies in them is mounted: a write that would be lost has to fail.
func (p *profile) closing() []string {
	var out []string
	for _, at := range p.paths() {
		if p.mounts[at] == hidden && isFolder(at) && p.roomy(at) {
			out = append(out, "--remount-ro", at)
		}
	}
	return out
}

func (p *profile) paths() []string {
	out := make([]string, 0, len(p.mounts))
	for at := range p.mounts {
		if !p.needless(at) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	return out
}

func (a access) String() string {
	return map[access]string{hidden: "hidden", readOnly: "read-only", readWrite: "writable", link: "a link"}[a]
}

// realPath returns the path without links: a mount over a link would leave what it points to.
func realPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is no absolute path", path)
	}
	return filepath.EvalSymlinks(path)
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
