package wall

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
)

// fillSession adds the mounts that only this session has: of all gates and Docker sockets it sees its own.
func (s *Sandbox) fillSession(p *profile, tier ops.Tier, session Session) error {
	if s.c.Gates != "" {
		if err := p.hide(s.c.Gates); err != nil {
			return err
		}
	}
	for _, dir := range session.doors() {
		if err := p.hide(filepath.Dir(dir)); err != nil {
			return err
		}
		if err := p.grant(dir, readOnly); err != nil {
			return err
		}
	}
	for _, place := range s.Lent(tier, session) { // before what is hidden in them
		if err := p.optional(place.Path, readWrite); err != nil {
			return err
		}
	}
	for _, path := range slices.Concat(s.closed(session), s.foreign(session, boundSockets())) {
		if err := p.hide(path); err != nil {
			return err
		}
	}
	write := slices.Concat(session.Folders, s.c.AgentFolders)
	if temp := s.Temp(session); temp != "" {
		write = append(write, temp)
	}
	if tier >= ops.Tier3 && !session.LookOnly {
		write = append(write, s.c.Named...)
	}
	for _, path := range write {
		if err := p.optional(path, readWrite); err != nil {
			return err
		}
	}
	fixed := s.c.ReadOnly
	if s.c.UIDs[tier] == 0 { // another user may not be able to get there; Landlock still keeps them from being changed
		fixed = slices.Concat(fixed, s.c.Own)
	}
	for _, path := range s.closed(session) {
		if p.mounts[path] == hidden {
			p.pin(path)
		}
	}
	if session.Clones != nil {
		p.lendClones(session.Clones)
		fixed = slices.Concat(fixed, session.Clones.Fixed)
	}
	for _, path := range fixed {
		if err := p.fix(path); err != nil {
			return err
		}
	}
	return nil
}

// pin makes each folder above a mount, in what the session may change, one of its own too: a mount cannot be renamed, but a folder that
// holds one can, and then it has another name for the next session.
func (p *profile) pin(at string) {
	for dir := filepath.Dir(at); p.writable(dir) && p.mounts[dir] != readWrite; dir = filepath.Dir(dir) {
		if isFolder(dir) { // some places are hidden whether they are there or not
			p.mounts[dir] = readWrite
		}
	}
}

// lendClones puts the session's copies in the place of the .git of clones.
func (p *profile) lendClones(c *Clones) {
	for _, path := range c.Fixed {
		if filepath.Base(path) != ".git" || !p.writable(path) {
			continue
		}
		repo := filepath.Dir(path)
		p.pin(path)
		if git := c.Git[repo]; git != "" {
			p.mounts[path], p.from[path] = readWrite, git
			objects, modules := filepath.Join(path, c.Objects), filepath.Join(path, "modules")
			p.mounts[objects], p.from[objects] = readOnly, filepath.Join(path, "objects")
			if isFolder(modules) {
				p.mounts[modules], p.from[modules] = readOnly, modules
			}
		}
	}
}

// writable reports whether a session may change what is at a path.
func (p *profile) writable(at string) bool {
	for dir := at; dir != "/"; dir = filepath.Dir(dir) {
		if kind, ok := p.mounts[dir]; ok {
			return kind == readWrite
		}
	}
	return false
}

// foreign are the sockets that do not lie in a folder of the session's own.
func (s *Sandbox) foreign(session Session, sockets []string) []string {
	mine := slices.Concat(session.doors(), session.Folders, s.grants(), s.c.ExtraReadOnly, []string{s.Temp(session)})
	return slices.DeleteFunc(sockets, func(path string) bool {
		return slices.ContainsFunc(mine, func(dir string) bool { return dir != "" && inside(path, dir) })
	})
}

// fix makes something read-only, unless it has another mount: one that hides it keeps more.
func (p *profile) fix(path string) error { return p.unlessTaken(path, readOnly) }

// hide makes something invisible, unless it has another mount or lies in something invisible.
func (p *profile) hide(path string) error { return p.unlessTaken(path, hidden) }

func (p *profile) unlessTaken(path string, kind access) error {
	at, err := realPath(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, taken := p.mounts[at]; !taken && !p.invisible(at) {
		p.mounts[at] = kind
		if kind == readOnly {
			p.loose[at] = true
		}
	}
	return nil
}

// Mounts reports whether sessions of a tier have mounts of their own, in bubblewrap: wherever there are walls and it works.
func (s *Sandbox) Mounts(tier ops.Tier) bool { return s.c.Confine && s.autoError(tier) == nil }

// HoldsFiles reports whether walls keep a tier from the files of others.
func (s *Sandbox) HoldsFiles(tier ops.Tier) bool {
	return s.c.Confine && confine.LandlockVersion() > 0 || s.Mounts(tier)
}

// autoError is why bubblewrap cannot be used here; nil when it can. It is tried once for each user that agents run as: the trial is the
// same for all tiers, and the next tier must not wait for it again.
func (s *Sandbox) autoError(tier ops.Tier) error {
	return s.tried(s.auto, tier, func(who *person, bwrap string) error { return s.try(who, bwrap, s.base()) })
}

// tried is what came of trying something as the user of a tier, now or before.
func (s *Sandbox) tried(before map[int]error, tier ops.Tier, try func(who *person, bwrap string) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := s.c.UIDs[tier]
	err, known := before[uid]
	if known {
		return err
	}
	before[uid] = func() error {
		var who *person
		if uid != 0 {
			found, err := lookUp(uid)
			if err != nil {
				return err
			}
			who = &found
		}
		bwrap, err := s.findBwrap()
		if err != nil {
			return err
		}
		return try(who, bwrap)
	}()
	return before[uid]
}

// checkRequired refuses a tier without the full set.
func (s *Sandbox) checkRequired(tier ops.Tier) error {
	for _, row := range s.Report(tier) {
		if row.Missing {
			return &LayerError{Layer: row.Wall, Why: row.Detail, Fix: row.Fix + ", or set sandbox.mode: auto"}
		}
	}
	return nil
}

// logGroups let the agent's user read logs.
func logGroups() []uint32 {
	var out []uint32
	for _, name := range []string{"adm", "systemd-journal"} {
		group, err := user.LookupGroup(name)
		if err != nil {
			continue
		}
		if gid, err := strconv.ParseUint(group.Gid, 10, 32); err == nil && gid != 0 {
			out = append(out, uint32(gid))
		}
	}
	return out
}

// Row is one wall of this machine, for people.
type Row struct {
	Wall    string
	State   string // on, off or missing
	Detail  string
	Fix     string
	Missing bool // wanted and not to be had
	Open    bool // could be had and is not wanted, which is worth a warning
}

// Report says which walls a tier has here and which are missing.
func (s *Sandbox) Report(tier ops.Tier) []Row {
	out := []Row{s.reportFiles()}
	seccomp := Row{Wall: "seccomp", State: "on", Detail: "calls that change mounts, namespaces, the kernel or other processes are refused"}
	switch {
	case !s.c.Confine:
		seccomp.State, seccomp.Detail = "off", "sandbox.mode is off"
	case !confine.SeccompAvailable():
		seccomp = Row{
			Wall: "seccomp", State: "missing", Detail: "there is no filter for this machine",
			Fix: "use a kernel with seccomp on amd64 or arm64", Missing: true,
		}
	}
	capabilities := Row{Wall: "capabilities", State: "on", Detail: "agents and their commands have none, and cannot gain any"}
	if !s.c.Confine {
		capabilities.State, capabilities.Detail = "off", "sandbox.mode is off"
	}
	return append(out, capabilities, seccomp, s.reportUser(tier), s.reportBubblewrap(tier), s.reportSockets(tier), s.reportNetwork(tier))
}

func (s *Sandbox) reportFiles() Row {
	row := Row{Wall: LayerLandlock, State: "on"}
	version := confine.LandlockVersion()
	switch {
	case !s.c.Confine:
		row.State, row.Detail = "off", "sandbox.mode is off"
	case version == 0:
		row.State, row.Missing = "missing", true
		row.Detail = "this kernel has no Landlock, so nothing but the other walls keeps files from being changed"
		row.Fix = "use Linux 6.12 or newer with landlock in the list of security modules"
	case version < confine.ScopedVersion:
		row.State, row.Missing = "missing", true
		row.Detail = fmt.Sprintf("Landlock version %d protects files, but not other processes from signals", version)
		row.Fix = "use Linux 6.12 or newer"
	default:
		row.Detail = fmt.Sprintf("version %d: writes stay in the session's own folders, secrets are not readable, signals stay inside", version)
	}
	return row
}

func (s *Sandbox) reportUser(tier ops.Tier) Row {
	if uid := s.c.UIDs[tier]; uid != 0 {
		return Row{Wall: LayerUID, State: "on", Detail: fmt.Sprintf("agents run as user %d", uid)}
	}
	return Row{
		Wall: LayerUID, State: "off", Detail: "agents run as the supervisor's user; create the user claudeops-agent, or set sandbox.uid",
	}
}

func (s *Sandbox) reportBubblewrap(tier ops.Tier) Row {
	row := Row{Wall: LayerBubblewrap, State: "on", Detail: "the file system is read-only, secrets and sockets are absent"}
	if !s.c.Confine {
		row.State, row.Detail = "off", "sandbox.mode is off"
		return row
	}
	if err := s.autoError(tier); err != nil {
		row.State, row.Missing, row.Detail = "missing", s.c.UIDs[tier] == 0, err.Error()
		var layer *LayerError
		if errors.As(err, &layer) {
			row.Detail, row.Fix = layer.Why, layer.Fix
		}
		if !row.Missing {
			row.Detail = "not required while agents have their own user: " + row.Detail
		}
	}
	return row
}

func (s *Sandbox) reportSockets(tier ops.Tier) Row {
	row := Row{Wall: "sockets", State: "on"}
	switch {
	case s.Mounts(tier):
		row.Detail = "the sockets of docker, systemd and the supervisor are absent"
	case s.c.UIDs[tier] != 0:
		row.Detail = "file permissions close the sockets of docker, systemd and the supervisor"
	case s.c.Confine && confine.SeccompAvailable():
		row.Detail = "commands cannot open Unix sockets at all: docker and local databases are reached through the supervisor or TCP only"
	case s.c.Confine:
		row.State, row.Missing, row.Detail, row.Fix = "missing", true, "commands can reach the docker socket", "set sandbox.uid"
	default:
		row.State, row.Detail = "off", "sandbox.mode is off"
	}
	return row
}

// Lacks says which of the walls does not stand that every tier above the first needs: around files, sockets and the network. It is empty
// if they stand. Mounts are not among them.
func (s *Sandbox) Lacks(tier ops.Tier) string {
	// Bubblewrap comes last: a daemon that has the other walls need not wait for its trial to start.
	switch {
	case !s.c.Confine:
		return "sandbox.mode is off"
	case confine.LandlockVersion() == 0:
		return "this kernel has no Landlock"
	case !confine.SeccompAvailable() && !s.socketsHidden(tier):
		return "commands can reach the sockets of docker and systemd"
	case !s.c.Network:
		return "sandbox.network is open"
	case !portsHeld() && !s.Namespaced(tier):
		return "nothing on this machine closes the network"
	}
	return ""
}
